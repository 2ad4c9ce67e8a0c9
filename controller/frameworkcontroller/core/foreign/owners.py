"""How large a gang is, by the object that it is: a function for each kind, and what of its spec keeps it from starting.

A barrier lets no Pod become ready before all are there, so whoever creates some Pods only when others are ready, or
have ended, waits for ever. Each such field is named.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from frameworkcontroller.api import foreign
from frameworkcontroller.api.meta import Identity, Labels, Wire
from frameworkcontroller.api.spec import MAX_ROLES, MAX_TASKS
from frameworkcontroller.core.foreign.pods import Place

_OPTED_IN: Final = "enabled"


class RoleSize(Struct, frozen=True):
    """A role: `jobs` times `each` Pods, whose indices in their Job begin with `first`."""

    jobs: int
    each: int
    first: int = 0

    @property
    def number(self) -> int:
        """All Pods."""
        return self.jobs * self.each

    def index(self, place: Place) -> int | None:
        """Return the index in the role, None for a place that it does not have."""
        inside = place.index - self.first
        return place.job * self.each + inside if 0 <= inside < self.each and place.job < self.jobs else None


class Size(Struct, frozen=True):
    """What the owner of a gang says of it."""

    uid: str
    roles: Mapping[str, RoleSize]
    """In their order; none where there is `never`, since nobody looks for their Pods."""
    never: str = ""
    """Why the gang can never be complete, with the field to change."""
    first: str = ""
    """The Task with rank 0, where the owner says so."""

    @property
    def total(self) -> int:
        """All Pods."""
        return sum(role.number for role in self.roles.values())


class _Metadata(Wire, frozen=True):
    labels: Labels = Labels()


class _Template(Wire, frozen=True):
    metadata: _Metadata = _Metadata()


class _JobSpec(Wire, frozen=True):
    parallelism: int = 1
    completions: int | None = None
    template: _Template = _Template()


class _JobTemplate(Wire, frozen=True):
    spec: _JobSpec = _JobSpec()


class _Named(Wire, frozen=True):
    name: str = ""


class _ReplicatedJob(_Named, frozen=True):
    template: _JobTemplate = _JobTemplate()
    replicas: int = 1
    depends_on: tuple[_Named, ...] = ()


class _Coordinator(Wire, frozen=True):
    replicated_job: str = ""
    job_index: int = 0
    pod_index: int = 0


class _Startup(Wire, frozen=True):
    startup_policy_order: str = ""


class _Ordinals(Wire, frozen=True):
    start: int = 0


class _Spec(_JobSpec, frozen=True):
    """The fields of all kinds, whose names do not meet."""

    replicated_jobs: tuple[_ReplicatedJob, ...] = ()
    coordinator: _Coordinator = _Coordinator()
    startup_policy: _Startup | str | None = None
    replicas: int = 1
    pod_management_policy: str = "OrderedReady"
    ordinals: _Ordinals = _Ordinals()


class _Owner(Wire, frozen=True):
    metadata: Identity
    spec: _Spec = _Spec()


_OWNER: Final = msgspec.json.Decoder(_Owner)


def size_of(kind: str, document: bytes, roles: Iterable[str], sizes: Iterable[str]) -> Size:
    """Return the size of a gang whose Pods name these roles, and have these texts in the annotation about it.

    Raises:
        msgspec.DecodeError: the document is no object of the kind.
    """
    named, found = tuple(roles), _OWNER.decode(document) if document else None
    uid, spec = (found.metadata.uid, found.spec) if found else ("", _Spec())
    match kind:
        case foreign.JOBSET.kind:
            size = _jobset(uid, spec, named)
        case foreign.JOB.kind:
            size = Size(uid, {named[0]: RoleSize(1, _pods(spec))}, _unequal(spec, "spec"))
        case foreign.STATEFUL_SET.kind:
            size = _stateful_set(uid, spec, named)
        case _:
            size = _said(kind, uid, spec, named, sorted(sizes))
    if not size.never and (size.total > MAX_TASKS or len(size.roles) > MAX_ROLES):
        never = f"it has {size.total} Pods in {len(size.roles)} roles, and {MAX_TASKS} in {MAX_ROLES} are possible"
        size = replace(size, never=never)
    return replace(size, roles={}) if size.never else size


def _pods(spec: _JobSpec) -> int:
    """Return how many Pods of a Job run at once."""
    return max(0, spec.parallelism if spec.completions is None else min(spec.parallelism, spec.completions))


def _unequal(spec: _JobSpec, path: str) -> str:
    if spec.completions is None or _pods(spec) >= spec.completions or not _pods(spec):
        return ""
    return (
        f"{path}.parallelism is {_pods(spec)} and {path}.completions {spec.completions}: "
        "the others are created when the first have ended; make them equal"
    )


def _jobset(uid: str, spec: _Spec, named: tuple[str, ...]) -> Size:
    # A label may be given by a policy, when the Pod is created.
    seen = frozenset(named)
    members = [
        job
        for job in spec.replicated_jobs
        if job.name in seen or job.template.spec.template.metadata.labels.barrier == _OPTED_IN
    ]
    # Without Pods there are no places, however many Jobs.
    each = {job.name: _pods(job.template.spec) for job in members}
    roles = {job.name: RoleSize(max(0, job.replicas) if each[job.name] else 0, each[job.name]) for job in members}
    first, head = "", spec.coordinator
    if head.replicated_job in roles:
        first = f"{head.replicated_job}-{head.job_index * roles[head.replicated_job].each + head.pod_index}"
        roles = {head.replicated_job: roles[head.replicated_job]} | roles
    return Size(uid, roles, next(_never(spec, members), ""), first)


def _never(spec: _Spec, members: list[_ReplicatedJob]) -> Iterator[str]:
    names = {job.name for job in members if job.replicas > 0}
    order = spec.startup_policy.startup_policy_order if isinstance(spec.startup_policy, _Startup) else ""
    if len(names) > 1 and order == "InOrder":
        yield (
            "spec.startupPolicy.startupPolicyOrder is InOrder: each replicated job is created when the one before is "
            "ready, which is when all are there; remove it, or set AnyOrder"
        )
    for job in members:
        path = f"spec.replicatedJobs[{job.name}]"
        if met := [one.name for one in job.depends_on if one.name in names]:
            yield f"{path}.dependsOn names {met[0]}, whose Pods wait for those of {job.name}; remove it"
        if job.replicas > 0 and (why := _unequal(job.template.spec, f"{path}.template.spec")):
            yield why


def _stateful_set(uid: str, spec: _Spec, named: tuple[str, ...]) -> Size:
    never = ""
    if spec.replicas > 1 and spec.pod_management_policy != "Parallel":
        never = (
            f"spec.podManagementPolicy is {spec.pod_management_policy}: each Pod is created when the "
            "one before is ready, which is when all are there; set Parallel"
        )
    return Size(uid, {named[0]: RoleSize(1, max(0, spec.replicas), spec.ordinals.start)}, never)


def _said(kind: str, uid: str, spec: _Spec, named: tuple[str, ...], sizes: list[str]) -> Size:
    """Return the size that Pods themselves say."""
    where = foreign.KINDS[kind].size
    if len(sizes) > 1:
        return Size(uid, {}, f"its Pods disagree in annotation {where}: {sizes[0]!r} and {sizes[1]!r}")
    roles: dict[str, RoleSize] = {}
    for item in sizes[0].split(","):
        role, equals, number = item.strip().rpartition("=")
        if not number.isascii() or not number.isdecimal() or len(number) > 5 or (equals and not role):
            return Size(uid, {}, f"annotation {where} is {sizes[0]!r}, and not like 4 or ps=1,worker=3")
        roles[role or named[0]] = RoleSize(1, int(number))
    never = ""
    if spec.startup_policy == "LeaderReady" and sum(role.number for role in roles.values()) > 1:
        never = (
            "spec.startupPolicy is LeaderReady: the workers are created when the leader is ready, which is when they "
            "are there; set LeaderCreated"
        )
    if not never and (strange := [role for role in named if role not in roles]):
        never = f"a Pod has the role {strange[0]}, which annotation {where} does not name: {sizes[0]!r}"
    return Size(uid, roles, never)
