"""Pods and ConfigMaps as the caches keep them: without what nothing reads, and with equal parts in memory once.

`Caches` calls a `SlimPods` for each Pod that it has seen. Thousands of Pods of a role differ in little: their names,
UIDs, addresses and times. The rest is shared, so that 100,000 Pods take 120 MiB at most. Anybody may write labels,
annotations and owners of some MiB into an object that the caches show: what the controller writes is short.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar, cast

from msgspec.structs import replace

from frameworkcontroller.api import names
from frameworkcontroller.api.pod import ContainerStatus

if TYPE_CHECKING:
    from collections.abc import Hashable

    from frameworkcontroller.api.meta import Meta, OwnerReference, Partial
    from frameworkcontroller.api.pod import Container, Pod, PodCondition, PodSpec

V = TypeVar("V")
C = TypeVar("C", bound=ContainerStatus)

ANNOTATIONS: Final = frozenset(names.POD_ANNOTATIONS) - {names.TASK_INDEX, names.TASK_UID}
"""What many Pods have in common: the index is in the name, and the Task's UID in the status."""
CONFIG_MAP_ANNOTATIONS: Final = frozenset({names.ROSTER_ANNOTATION})
FOUND_ANNOTATIONS: Final = frozenset(names.POD_ANNOTATIONS) | CONFIG_MAP_ANNOTATIONS
CONDITIONS: Final = frozenset({"PodScheduled", "Ready"})
CONDITIONS_WHILE_TRUE: Final = frozenset({names.ALL_CONTAINERS_RESTARTING})
MAX_SHARED: Final = 50_000
"""Parts that are remembered, about 10 MiB, also of Pods that are gone; each container counts as one. With more, sharing
begins again. A Framework has ten or so: with fewer than all Frameworks whose Pods change in turn have together, nothing
is shared any more."""
MAX_VALUE: Final = 256
"""Characters of an annotation; the controller writes none that is longer."""
MAX_SIDECARS: Final = 256
"""Of a Pod, as many as the controller lets it have containers by default."""
MAX_CONTAINERS_SHARED: Final = 20
"""What a Pod with more of them, or of sidecars, has is not shared."""


class SlimPods:
    """Makes Pods slim."""

    def __init__(self) -> None:
        self._shared: dict[Hashable, object] = {}
        self._size = 0

    def __len__(self) -> int:
        """Return how many parts are remembered."""
        return self._size

    def __call__(self, pod: Pod) -> Pod:
        """Return the Pod without annotations of others, its parts shared with equal ones."""
        meta, status = pod.metadata, pod.status
        return replace(
            pod,
            metadata=replace(
                meta,
                namespace=self._share(meta.namespace),
                creation_timestamp=self._share(meta.creation_timestamp),
                labels=self._share(replace(meta.labels, index=None)),
                annotations=self._kept(meta.annotations),
                owner_references=self._share(_controller(meta)),
            ),
            spec=self._spec(pod.spec),
            status=replace(
                status,
                phase=self._share(status.phase),
                host_ip=self._share(status.host_ip),
                conditions=self._share(tuple(filter(_is_kept, status.conditions))),
                init_container_statuses=self._containers(status.init_container_statuses),
                container_statuses=self._containers(status.container_statuses),
            ),
        )

    def _spec(self, spec: PodSpec) -> PodSpec:
        """Keep the init containers that decisions look for: the barrier and sidecars."""
        kept = tuple(filter(_is_looked_for, spec.init_containers))[:MAX_SIDECARS]
        slim = replace(spec, init_containers=kept)
        return self._share(slim, len(kept) + 1) if len(kept) <= MAX_CONTAINERS_SHARED else slim

    def _containers(self, statuses: tuple[C, ...]) -> tuple[C, ...]:
        """Share the statuses of containers that run or have not ended badly; what a failed one says is its own."""
        slim = tuple(map(_without_end_time, statuses))
        is_shared = len(slim) <= MAX_CONTAINERS_SHARED and all(_says_nothing(one) for one in slim)
        return self._share(slim, len(slim) + 1) if is_shared else slim

    def _kept(self, found: dict[str, str]) -> dict[str, str]:
        # What is longer than any value that the controller writes, or no ASCII, matches nothing: little is kept of it.
        kept = tuple((key, self._share(_short(value))) for key, value in found.items() if key in ANNOTATIONS)
        # An empty tuple is a value of its own, no key of an empty dict.
        return self._shared_as((dict, kept), dict(kept))

    def _share(self, value: V, parts: int = 1) -> V:
        return self._shared_as(value, value, parts)

    def _shared_as(self, key: Hashable, value: V, parts: int = 1) -> V:
        if self._size >= MAX_SHARED:
            self._shared.clear()
            self._size = 0
        before = len(self._shared)
        found = cast("V", self._shared.setdefault(key, value))  # equal keys have equal values
        self._size += parts * (len(self._shared) - before)
        return found


def slim_config_map(found: Partial) -> Partial:
    """Return the ConfigMap without annotations and owners of others."""
    return replace(found, metadata=slim_meta(found.metadata, CONFIG_MAP_ANNOTATIONS))


def slim_meta(meta: Meta, annotations: frozenset[str] = FOUND_ANNOTATIONS) -> Meta:
    """Return metadata with these annotations alone: by default, those that say whose an object is."""
    return replace(
        meta,
        annotations={key: _short(value) for key, value in meta.annotations.items() if key in annotations},
        owner_references=_controller(meta),
    )


def _short(value: str) -> str:
    return value[:MAX_VALUE] if value.isascii() else ""


def _controller(meta: Meta) -> tuple[OwnerReference, ...]:
    """Return the owner that matters. A longer text than the controller writes matches nothing."""
    owner = meta.controller
    if owner is None:
        return ()
    return (replace(owner, kind=_short(owner.kind), name=_short(owner.name), uid=_short(owner.uid)),)


def _is_looked_for(container: Container) -> bool:
    return container.name == names.BARRIER_CONTAINER or container.restart_policy == "Always"


def _is_kept(condition: PodCondition) -> bool:
    while_true = condition.type in CONDITIONS_WHILE_TRUE and condition.status == "True"
    return condition.type in CONDITIONS or while_true


def _without_end_time(status: C) -> C:
    """Leave out when a container succeeded: only among failures it matters which was the last."""
    end = status.state.terminated
    if end is None or end.exit_code != 0 or end.finished_at is None:
        return status
    return replace(status, state=replace(status.state, terminated=replace(end, finished_at=None)))


def _says_nothing(status: ContainerStatus) -> bool:
    end, waiting = status.state.terminated, status.state.waiting
    return (
        status.last_state.terminated is None
        and not (end and (end.message or end.exit_code))
        and not (waiting and waiting.message)
    )
