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

LABELS: Final = frozenset({names.FRAMEWORK_NAME, names.TASKROLE_NAME, names.BARRIER_LABEL})
ANNOTATIONS: Final = frozenset(names.POD_ANNOTATIONS) - {names.TASK_INDEX, names.TASK_UID}
"""What many Pods have in common: the index is in the name, and the Task's UID in the status."""
CONFIG_MAP_ANNOTATIONS: Final = frozenset({names.ROSTER_ANNOTATION})
FOUND_LABELS: Final = LABELS | {names.RETAINED_LABEL}
FOUND_ANNOTATIONS: Final = frozenset(names.POD_ANNOTATIONS) | CONFIG_MAP_ANNOTATIONS
CONDITIONS: Final = frozenset({"PodScheduled", "Ready"})
CONDITIONS_WHILE_TRUE: Final = frozenset({names.ALL_CONTAINERS_RESTARTING})
MAX_SHARED: Final = 50_000
"""Parts that are remembered, about 10 MiB, also of Pods that are gone; with more, sharing begins again. A Framework has
ten or so: with fewer than all Frameworks whose Pods change in turn have together, nothing is shared any more."""
MAX_VALUE: Final = 256
"""Characters of an annotation; the controller writes none that is longer."""
MAX_SIDECARS: Final = 256
"""Of a Pod, as many as the controller lets it have containers by default."""
MAX_SIDECARS_SHARED: Final = 20
"""What a Pod with more of them has is not shared."""


class SlimPods:
    """Makes Pods slim."""

    def __init__(self) -> None:
        self._shared: dict[Hashable, object] = {}

    def __len__(self) -> int:
        """Return how many parts are remembered."""
        return len(self._shared)

    def __call__(self, pod: Pod) -> Pod:
        """Return the Pod without labels and annotations of others, its parts shared with equal ones."""
        meta, status = pod.metadata, pod.status
        return replace(
            pod,
            metadata=replace(
                meta,
                namespace=self._share(meta.namespace),
                creation_timestamp=self._share(meta.creation_timestamp),
                labels=self._kept(meta.labels, LABELS),
                annotations=self._kept(meta.annotations, ANNOTATIONS),
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
        return self._share(slim) if len(kept) <= MAX_SIDECARS_SHARED else slim

    def _containers(self, statuses: tuple[C, ...]) -> tuple[C, ...]:
        """Share the statuses of containers that run or have not ended badly; what a failed one says is its own."""
        slim = tuple(map(_without_end_time, statuses))
        return self._share(slim) if all(_says_nothing(one) for one in slim) else slim

    def _kept(self, found: dict[str, str], wanted: frozenset[str]) -> dict[str, str]:
        # A value that is longer than any that the controller writes matches nothing, and is not kept for ever.
        kept = tuple((key, self._share(value[:MAX_VALUE])) for key, value in found.items() if key in wanted)
        # An empty tuple is a value of its own, no key of an empty dict.
        return self._shared_as((dict, kept), dict(kept))

    def _share(self, value: V) -> V:
        return self._shared_as(value, value)

    def _shared_as(self, key: Hashable, value: V) -> V:
        if len(self._shared) >= MAX_SHARED:
            self._shared.clear()
        return cast("V", self._shared.setdefault(key, value))  # equal keys have equal values


def slim_config_map(found: Partial) -> Partial:
    """Return the ConfigMap without labels, annotations and owners of others."""
    return replace(found, metadata=slim_meta(found.metadata, LABELS, CONFIG_MAP_ANNOTATIONS))


def slim_meta(
    meta: Meta, labels: frozenset[str] = FOUND_LABELS, annotations: frozenset[str] = FOUND_ANNOTATIONS
) -> Meta:
    """Return metadata with these labels and annotations alone: by default, those that say whose an object is."""
    return replace(
        meta,
        labels={key: value[:MAX_VALUE] for key, value in meta.labels.items() if key in labels},
        annotations={key: value[:MAX_VALUE] for key, value in meta.annotations.items() if key in annotations},
        owner_references=_controller(meta),
    )


def _controller(meta: Meta) -> tuple[OwnerReference, ...]:
    """Return the owner that matters. A longer text than the controller writes matches nothing."""
    owner = meta.controller
    if owner is None:
        return ()
    return (replace(owner, kind=owner.kind[:MAX_VALUE], name=owner.name[:MAX_VALUE], uid=owner.uid[:MAX_VALUE]),)


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
