"""A Pod of another controller's gang: what it says of its gang and of its own place in it.

The cache keeps a Pod as `ForeignPods` returns it. Anybody may write any label: what cannot be a place is no member.
"""

import re
from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import Struct, field
from msgspec.structs import fields, replace

from frameworkcontroller.api import foreign, names
from frameworkcontroller.api.meta import Labels, Meta, Wire
from frameworkcontroller.api.pod import Pod, PodSpec

MOST_CLAIMS: Final = 10_000
"""What Pods say of their gangs that is in memory once; with more, sharing begins again."""
MOST_TEXT: Final = 1024
"""Characters of an annotation that says how many there are."""
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_NUMBER: Final = re.compile(r"[0-9]{1,9}")


class ForeignLabels(Labels, frozen=True, omit_defaults=True):
    """The labels of the table of kinds."""

    jobset: str | None = field(default=None, name=foreign.JOBSET.label)
    jobset_uid: str | None = field(default=None, name=foreign.JOBSET.parts[0])
    jobset_attempt: str | None = field(default=None, name=foreign.JOBSET.parts[1])
    jobset_role: str | None = field(default=None, name=foreign.JOBSET_ROLE)
    jobset_job: str | None = field(default=None, name=foreign.JOBSET_JOB_INDEX)
    completion: str | None = field(default=None, name=foreign.COMPLETION_INDEX)
    lws: str | None = field(default=None, name=foreign.LWS.label)
    lws_key: str | None = field(default=None, name=foreign.LWS.parts[0])
    lws_revision: str | None = field(default=None, name=foreign.LWS.parts[1])
    worker: str | None = field(default=None, name=foreign.WORKER_INDEX)
    pod_index: str | None = field(default=None, name=foreign.POD_INDEX)


_ATTRIBUTES: Final = {one.encode_name: one.name for one in fields(ForeignLabels)}


class ForeignMeta(Meta, frozen=True):
    """The metadata with those labels."""

    labels: ForeignLabels = ForeignLabels()


class _Resources(Wire, frozen=True):
    limits: dict[str, str | int] | None = None


class _Container(Wire, frozen=True):
    resources: _Resources = _Resources()


class ForeignSpec(PodSpec, frozen=True):
    """Whose permissions the barrier has, and what the containers ask for."""

    service_account_name: str = "default"
    containers: tuple[_Container, ...] = ()


class Claim(Struct, frozen=True):
    """What a Pod says of its gang, the same in all Pods of one."""

    kind: str
    gang: str
    """The name of the gang, which names its roster."""
    owner: str
    """The name of the object that is the gang; of bare Pods, what they call it."""
    uid: str
    """That object's UID, "" if the Pod does not say it."""
    attempt: int
    size: str
    """The text of the annotation with the number of Pods, "" where the owner says it."""
    account: str
    by_arrival: bool


class Place(Struct, frozen=True):
    """Where in its gang a Pod is: the Job of its role and the index in that, as far as the kind has these."""

    role: str
    job: int
    index: int


class ForeignPod(Pod, frozen=True):
    """A Pod that asks for the barrier and belongs to no Framework."""

    metadata: ForeignMeta
    spec: ForeignSpec = ForeignSpec()


class Member(ForeignPod, frozen=True, kw_only=True):
    """One that says of which gang it is, and where in it."""

    claim: Claim
    place: Place
    gpus: int = 0
    """Those that its containers ask for."""


FOREIGN_POD_DECODER: Final = msgspec.json.Decoder(ForeignPod)


class ForeignPods:
    """Makes Pods slim: `slim` is what makes those of Frameworks so."""

    def __init__(self, slim: Callable[[ForeignPod], ForeignPod]) -> None:
        self._slim = slim
        self._claims: dict[Claim, Claim] = {}

    def __call__(self, pod: ForeignPod) -> ForeignPod:
        """Return the Pod, as a `Member` if it is one, without the labels and annotations that say so."""
        found, gpus = _read(pod), _gpus(pod)
        meta = replace(pod.metadata, labels=ForeignLabels(), annotations={})
        spec = replace(pod.spec, containers=(), service_account_name="")
        slim = self._slim(replace(pod, metadata=meta, spec=spec))
        if found is None:
            return slim
        if len(self._claims) >= MOST_CLAIMS:
            self._claims.clear()
        claim = self._claims.setdefault(found[0], found[0])
        return Member(
            metadata=slim.metadata, spec=slim.spec, status=slim.status, claim=claim, place=found[1], gpus=gpus
        )


def _gpus(pod: ForeignPod) -> int:
    texts = (
        str(number)
        for one in pod.spec.containers
        for name, number in (one.resources.limits or {}).items()
        if name.endswith(names.GPU_SUFFIX)
    )
    return sum(int(text) for text in texts if _NUMBER.fullmatch(text))


def _read(pod: ForeignPod) -> tuple[Claim, Place] | None:
    """Return what a Pod says, None if that is not all that a member has to say."""
    meta, found = pod.metadata, pod.metadata.annotations
    labels, owner = meta.labels, meta.controller

    def label(key: str) -> str | None:
        value: str | None = getattr(labels, _ATTRIBUTES[key])
        return value

    kind = foreign.kind_of(label, found.get(foreign.GANG), "" if owner is None else owner.kind)
    role, job, index, size, attempt = foreign.DEFAULT_ROLE, "0", None, "", "0"
    if kind is None:
        return None
    parts: tuple[str, ...]
    if kind is foreign.PODS:
        name = found[foreign.GANG]
        parts, uid = (name,), ""
        role, index = found.get(foreign.GANG_ROLE, role), found.get(foreign.GANG_INDEX)
        size = found.get(foreign.GANG_SIZE, "")
    elif owner is None:
        return None
    elif kind is foreign.JOBSET:
        name, uid, attempt = labels.jobset or "", labels.jobset_uid or "", labels.jobset_attempt or ""
        parts = name, uid, attempt
        role, job, index = labels.jobset_role or "", labels.jobset_job or "", labels.completion
    elif kind is foreign.LWS:
        name, uid = labels.lws or "", ""
        parts = name, labels.lws_key or "", labels.lws_revision or ""
        index, size = labels.worker, found.get(foreign.LWS_SIZE, "")
    else:
        name, uid = owner.name, owner.uid
        parts = name, uid
        index = labels.completion if kind is foreign.JOB else labels.pod_index
    if kind in (foreign.JOB, foreign.LWS, foreign.STATEFUL_SET):
        role = found.get(foreign.ROLES, role).partition("=")[0].strip()
    gang = foreign.gang_name(kind, parts)
    numbers = (attempt, job, index or "")
    if not all(parts) or not role or not _NAME.fullmatch(gang) or not all(map(_NUMBER.fullmatch, numbers)):
        return None
    by_arrival = found.get(names.BARRIER_WAIT_FOR_ANNOTATION) == names.ARRIVED
    account = pod.spec.service_account_name
    claim = Claim(kind.kind, gang, name, uid, int(attempt), size[:MOST_TEXT], account, by_arrival)
    return claim, Place(role, int(job), int(index or ""))
