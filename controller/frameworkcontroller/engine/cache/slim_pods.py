"""Pods as the caches keep them: without what nothing reads, and with equal parts in memory once.

`Caches` calls a `SlimPods` for each Pod that it has seen. Thousands of Pods of a role differ in little: their names,
UIDs, addresses and times. The rest is shared, so that 100,000 Pods take 120 MiB at most.
"""

import functools
from collections import Counter
from collections.abc import Hashable
from typing import Final, TypeVar, cast

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from frameworkcontroller.api import names
from frameworkcontroller.api.meta import Wire
from frameworkcontroller.api.pod import ContainerState, ContainerStatus, Pod, PodCondition, PodSpec, Running, Times
from frameworkcontroller.api.pod_group import DISRUPTED
from frameworkcontroller.core.clock import latest

V = TypeVar("V")
P = TypeVar("P", bound="Wire | None")
C = TypeVar("C", bound=ContainerStatus)
F = TypeVar("F", bound=Pod)

ANNOTATIONS: Final = frozenset({names.FRAMEWORK_UID, names.BARRIER_READS_ANNOTATION})
"""What decisions look at; the Pods of a Framework have it in common."""
CONDITIONS: Final = frozenset({"PodScheduled", "Ready"})
CONDITIONS_WHILE_TRUE: Final = frozenset({names.ALL_CONTAINERS_RESTARTING, DISRUPTED})
RUNS: Final = ContainerState(running=Running())
MAX_SHARED: Final = 10 * 1024 * 1024
"""Bytes of parts that are remembered, also of Pods that are gone. With more, sharing begins again. A Framework has ten
parts or so of some 200 bytes: with less place than all Frameworks whose Pods change in turn need together, nothing is
shared any more."""
PART_BYTES: Final = 128
"""What a part takes beside its values, which take about twice as much as they do as JSON."""
MOST: Final = {"message": 12 * 1024} | dict.fromkeys(
    ("name", "phase", "status", "reason", "pod_ip", "host_ip", "node_name"), 256
)
"""Characters of texts by their fields. A kubelet writes messages of 12 KiB about all containers of a Pod that have
ended; whoever has permissions on `pods/status` writes a mebibyte."""
MOST_OF_POD: Final = {"message": 16 * 1024, "reason": 8 * 1024, "name": 16 * 1024}
"""Of these texts of all containers and conditions together; one that is not ASCII counts four times, as wide as an
emoji makes all its characters in memory. A message of 4 KiB, the most that a kubelet takes from one container, stays
whole even so."""
MAX_CONTAINERS: Final = 256
"""Of a Pod, as many as the controller lets it have. Whoever has permissions on `pods/status` writes 30,000, whose
exit codes alone are looked through for seconds."""
MAX_CONTAINERS_SHARED: Final = 20
"""What a Pod with more of them, or of sidecars, has is not shared."""
CONTAINER_BYTES: Final = 512
"""What a container takes beside its texts."""
LARGE: Final = 2 * MAX_CONTAINERS_SHARED * CONTAINER_BYTES
"""Bytes of a Pod that few take."""
MOST_LARGE: Final = 32 * 1024 * 1024
"""Bytes of the large Pods of a namespace. With more, another one is cut to fewer containers and texts."""
CUT: Final = {name: size // 8 for name, size in MOST_OF_POD.items()}
"""Bytes of its texts; its containers are `MAX_CONTAINERS_SHARED`, first those that have failed."""


class SlimPods:
    """Makes Pods slim."""

    def __init__(self) -> None:
        self._shared: dict[Hashable, object] = {}
        self.size = 0
        """About how many bytes the parts have that are remembered."""
        self.large: dict[tuple[str, str], int] = {}
        """About how many bytes each large Pod takes that is cached, by namespace and name."""
        self._large_of: Counter[str] = Counter()
        self.keeps_times = True
        """Whether the caches are not full yet: what a controller finds when it begins may have gone on without one."""

    def __call__(self, pod: F) -> F:
        """Return the Pod without annotations of others, its parts shared with equal ones."""
        self.forget(pod)
        namespace = pod.metadata.namespace
        whole = self._large_of[namespace] < MOST_LARGE
        texts, most = (MOST_OF_POD, MAX_CONTAINERS) if whole else (CUT, MAX_CONTAINERS_SHARED)
        left = dict(texts)
        meta, status = pod.metadata.slim(ANNOTATIONS), _cut(pod.status, left)
        # In this order they take what is left: where an application has failed, its message matters most.
        containers = self._containers(status.container_statuses, most, left)
        init_containers = self._containers(status.init_container_statuses, most - len(containers), left)
        conditions = {one.type: one for one in reversed(status.conditions) if _is_kept(one)}  # the first of each type
        untimed = (replace(one, last_transition_time=UNSET) for one in reversed(conditions.values()))
        spec = self._spec(pod.spec, most)
        slim = replace(
            pod,
            metadata=replace(
                meta,
                namespace=self.share(meta.namespace),
                creation_timestamp=self.share(meta.creation_timestamp),
                labels=self.share(replace(meta.labels, index=None)),
                annotations=self.share(meta.annotations, key=(dict, tuple(meta.annotations.items()))),
                owner_references=self.share(meta.owner_references),
            ),
            spec=spec,
            times=tuple(map(self.share, _times_of(pod))) if self.keeps_times else UNSET,
            status=replace(
                status,
                phase=self.share(status.phase),
                host_ip=self.share(status.host_ip),
                conditions=self.share(tuple(_cut(one, left) for one in untimed)),
                init_container_statuses=init_containers,
                container_statuses=containers,
            ),
        )
        number = len(containers) + len(init_containers) + len(spec.init_containers)
        if (size := number * CONTAINER_BYTES + sum(texts.values()) - sum(left.values())) > LARGE:
            self.large[namespace, pod.metadata.name] = size
            self._large_of[namespace] += size
        return slim

    def forget(self, pod: Pod) -> None:
        """Forget a Pod that is not cached any more."""
        namespace = pod.metadata.namespace
        if size := self.large.pop((namespace, pod.metadata.name), 0):
            self._large_of[namespace] -= size
            if not self._large_of[namespace]:
                del self._large_of[namespace]

    def _spec(self, spec: PodSpec, most: int) -> PodSpec:
        """Keep the init containers that decisions look for: the barrier and sidecars."""
        barrier = names.BARRIER_CONTAINER
        looked_for = [one for one in spec.init_containers if one.name == barrier or one.restart_policy == "Always"]
        kept = tuple(sorted(looked_for, key=lambda one: one.name != barrier)[:most])
        slim = replace(_cut(spec, {}), init_containers=kept)
        return self.share(slim) if len(kept) <= MAX_CONTAINERS_SHARED else slim

    def _containers(self, statuses: tuple[C, ...], most: int, left: dict[str, int]) -> tuple[C, ...]:
        """Share the statuses of containers that run or have not ended badly; what a failed one says is its own."""
        if not statuses:
            return statuses
        places = range(min(len(statuses), MAX_CONTAINERS))
        failed_first = sorted(places, key=lambda place: not _has_failed(statuses[place]))[:most]
        by_place = {place: _slim_status(statuses[place], left) for place in failed_first}
        slim = tuple(by_place[place] for place in sorted(failed_first))
        is_shared = len(slim) <= MAX_CONTAINERS_SHARED and all(_says_nothing(one) for one in slim)
        return self.share(slim) if is_shared else slim

    def share(self, value: V, key: Hashable = None) -> V:
        """Return the value that is remembered of those equal to this one."""
        if self.size >= MAX_SHARED:
            self._shared.clear()
            self.size = 0
        before = len(self._shared)
        found = cast("V", self._shared.setdefault(key or value, value))  # equal keys have equal values
        if len(self._shared) > before:
            self.size += PART_BYTES + 2 * len(msgspec.json.encode(value))
        return found


def _is_kept(condition: PodCondition) -> bool:
    return condition.type in CONDITIONS or (condition.type in CONDITIONS_WHILE_TRUE and condition.status == "True")


def _has_failed(status: ContainerStatus) -> bool:
    end = status.state.terminated or status.last_state.terminated
    return end is not None and end.exit_code != 0


def _slim_status(status: C, left: dict[str, int]) -> C:
    """Leave out when a container succeeded: only among failures it matters which was the last."""
    end, waiting, last = status.state.terminated, status.state.waiting, status.last_state.terminated
    status = _cut(status, left)
    if status.state.running is not None:
        status = replace(status, state=RUNS)
    if end is None and waiting is None and last is None:
        return status
    if end is not None:
        end = replace(end, started_at=UNSET, finished_at=end.finished_at if end.exit_code else None)
    if last is not None:
        last = replace(last, started_at=UNSET)
    state = replace(status.state, terminated=_cut(end, left), waiting=_cut(waiting, left))
    return replace(status, state=state, last_state=replace(status.last_state, terminated=_cut(last, left)))


def _times_of(pod: Pod) -> Times:
    """Return when the Pod got its node, and when all its application containers ran and had ended."""
    states = [one.state for one in pod.status.container_statuses]
    ends = [one.terminated for one in states]
    placed = [one for one in pod.status.conditions if one.type == "PodScheduled" and one.status == "True"]
    return (
        (placed[0].last_transition_time or None) if placed else None,
        latest([getattr(one.running or one.terminated, "started_at", None) or None for one in states]),
        latest([None if one is None else one.finished_at for one in ends]),
    )


def _cut(part: P, left: dict[str, int]) -> P:
    """Return a part of a Pod with texts no longer than what a kubelet or the API server writes there.

    They take it of what is left for texts of these fields.
    """
    if part is None:
        return part
    long = {}
    for name, most in _texts_of(type(part)):
        if text := getattr(part, name):
            width = 1 if text.isascii() else 4
            kept = min(len(text), most, left.get(name, most * width) // width)
            if name in left:
                left[name] -= width * kept
            if kept < len(text):
                long[name] = text[:kept]
    return replace(part, **long) if long else part


@functools.cache
def _texts_of(kind: type[Wire]) -> tuple[tuple[str, int], ...]:
    """Return the fields of a kind of part that are cut, and to how many characters: each event of a Pod asks."""
    return tuple((name, most) for name, most in MOST.items() if name in kind.__struct_fields__)


def _says_nothing(status: ContainerStatus) -> bool:
    end, waiting = status.state.terminated, status.state.waiting
    return (
        status.last_state.terminated is None
        and not (end and (end.message or end.exit_code))
        and not (waiting and waiting.message)
    )
