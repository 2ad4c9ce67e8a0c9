"""A Pod of another controller's gang: what it says of its gang and of its own place in it.

The cache keeps a Pod as `ForeignPods` returns it. Anybody may write any label: what cannot be a place is no member.
"""

import re
from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import Raw, Struct, field
from msgspec.structs import fields, replace

from frameworkcontroller.api import foreign, names
from frameworkcontroller.api.meta import Labels, Meta, Wire
from frameworkcontroller.api.pod import Pod, PodSpec
from frameworkcontroller.core.pods.facts import gpus_of

MOST_TEXT: Final = 1024
"""Characters of an annotation that says how many there are: of ASCII, since each Pod may have another text, and 1,024
emoji take 8 KiB."""
MOST_NAME: Final = 63
"""Characters of what names a gang or a role, as much as a label has: an annotation may have 256 KiB."""
MOST_RESOURCES: Final = 64 * 1024
"""Bytes of what the containers of a Pod ask for; of one with more GPUs are not counted, at each of its events."""
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_NUMBER: Final = re.compile(r"[0-9]{1,9}")


class ForeignLabels(Labels, frozen=True, omit_defaults=True):
    """The labels of the table of kinds."""

    jobset: str = field(default="", name=foreign.JOBSET.name)
    jobset_uid: str = field(default="", name=foreign.JOBSET.uid)
    attempt: str = field(default="", name=foreign.JOBSET.attempt)
    replicated_job: str = field(default="", name=foreign.JOBSET.role)
    job_index: str = field(default="", name=foreign.JOBSET.job)
    completion_index: str = field(default="", name=foreign.JOBSET.index)
    lws: str = field(default="", name=foreign.LWS.name)
    group: str = field(default="", name=foreign.LWS.parts[0])
    revision: str = field(default="", name=foreign.LWS.parts[1])
    worker_index: str = field(default="", name=foreign.LWS.index)
    job: str = field(default="", name=foreign.JOB.name)
    job_uid: str = field(default="", name=foreign.JOB.uid)
    pod_index: str = field(default="", name=foreign.STATEFUL_SET.index)


class ForeignMeta(Meta, frozen=True):
    """The metadata with those labels."""

    labels: ForeignLabels = ForeignLabels()


class _Container(Wire, frozen=True):
    resources: Raw = Raw(b"null")


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
_LABELS: Final = [(one.name, one.encode_name) for one in fields(ForeignLabels)]


class ForeignPods:
    """Makes Pods slim: `slim` is what makes those of Frameworks so, and `share` keeps what is equal in memory once."""

    def __init__(self, slim: Callable[[ForeignPod], ForeignPod], share: Callable[[Claim], Claim]) -> None:
        self._slim, self._share = slim, share

    def __call__(self, pod: ForeignPod) -> ForeignPod:
        """Return the Pod, as a `Member` if it is one, without the labels and annotations that say so."""
        meta = replace(pod.metadata, labels=ForeignLabels(), annotations={})
        spec = replace(pod.spec, containers=(), service_account_name="")
        slim, found = self._slim(replace(pod, metadata=meta, spec=spec)), _read(pod)
        if found is None:
            return slim
        claim, place = self._share(found[0]), found[1]
        asked = [bytes(one.resources) for one in pod.spec.containers]
        gpus = sum(map(gpus_of, asked)) if sum(map(len, asked)) <= MOST_RESOURCES else 0
        return Member(metadata=slim.metadata, spec=slim.spec, status=slim.status, claim=claim, place=place, gpus=gpus)


def _read(pod: ForeignPod) -> tuple[Claim, Place] | None:
    """Return what a Pod says, None if that is not all that a member has to say."""
    meta, owner = pod.metadata, pod.metadata.controller
    said = meta.annotations | {key: value for name, key in _LABELS if (value := getattr(meta.labels, name))}
    kind = foreign.kind_of(said.get, "" if owner is None else owner.kind)
    if kind is None:
        return None
    name, uid = said.get(kind.name, ""), said.get(kind.uid, "")
    if kind.owner and owner is not None:
        name, uid = owner.name, owner.uid
    parts = [name, *(said.get(key, "") for key in kind.parts)]
    gang, role = foreign.gang_name(kind, parts), said.get(kind.role, foreign.DEFAULT_ROLE).partition("=")[0].strip()
    attempt, job, index = said.get(kind.attempt, "0"), said.get(kind.job, "0"), said.get(kind.index, "")
    if not all((*parts, role)) or not _NAME.fullmatch(gang) or not all(map(_NUMBER.fullmatch, (attempt, job, index))):
        return None
    if any(len(one) > MOST_NAME for one in (*parts, role, uid)):
        return None
    by_arrival = said.get(names.BARRIER_WAIT_FOR_ANNOTATION) == names.ARRIVED
    size, account = said.get(kind.size, "")[:MOST_TEXT], pod.spec.service_account_name
    if not size.isascii():  # which is no size
        size = ascii(size)[1:-1][:MOST_TEXT]
    claim = Claim(kind.kind, gang, name, uid, int(attempt), size, account, by_arrival)
    return claim, Place(role, int(job), int(index))
