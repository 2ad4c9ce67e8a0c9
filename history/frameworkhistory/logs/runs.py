"""Which logs a Pod has: pure, from what the kubelet reports of its containers."""

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from frameworkclient.views.pods import ContainerStatus, TaskPod
from frameworkcontroller.api import names
from frameworkhistory.archive.changes import Row

KEEP_ANNOTATION: Final = f"{names.GROUP}/keep-log"
WHOLE: Final = "whole"
ANNOTATIONS: Final = frozenset({KEEP_ANNOTATION, names.RESTART_ANNOTATION, *names.POD_ANNOTATIONS})
# A user may have changed it, and it becomes part of a path.
_UID: Final = re.compile(r"[0-9A-Za-z-]{1,64}")


class Run(msgspec.Struct, frozen=True):
    """One run of one container, which has one log.

    Attributes:
        framework: The UID of its Framework.
        restart: How often the kubelet had restarted the container before.
        epoch: How often the Pod had restarted in place before, 0 if it does not do that.
    """

    framework: str
    attempt: int
    role: str
    index: int
    run: int
    namespace: str
    pod: str
    pod_uid: str
    container: str
    restart: int
    epoch: int

    @property
    def place(self) -> tuple[str, int]:
        """Which run of the Pod it is."""
        return self.container, self.restart

    @property
    def key(self) -> str:
        """Where its log is stored."""
        task = f"{self.namespace}/{self.framework}/{self.attempt}/{self.role}-{self.index}"
        return f"{task}/{self.run}-{self.pod_uid}-{self.container}-{self.restart}.log.gz"

    def row(self) -> Row:
        """Return the columns that say whose log it is."""
        return {key: one for key, one in msgspec.structs.asdict(self).items() if key not in _NO_COLUMNS}


_NO_COLUMNS: Final = {"framework", "namespace", "pod"}


def framework_uid(pod: TaskPod) -> str:
    """Return the UID of a Pod's Framework, "" if it is the Pod of none."""
    found = pod.metadata.annotations.get(names.FRAMEWORK_UID, "")
    return found if pod.role and pod.index >= 0 and _UID.fullmatch(found) else ""


def is_in_place(pod: TaskPod) -> bool:
    """Report whether all its containers restart at once, and their logs go with that."""
    return pod.metadata.annotations.get(names.RESTART_ANNOTATION) == names.IN_PLACE


def is_final(pod: TaskPod) -> bool:
    """Report whether no container of it runs again."""
    return pod.status.phase in {"Succeeded", "Failed"}


def runs(pod: TaskPod) -> Iterator[tuple[Run, bool]]:
    """Yield the runs of a Pod whose logs are kept, and whether they are over.

    They are those of its application, and while that has not begun, of init containers that have failed. Of earlier
    ones, the kubelet has the log of one alone; one more is yielded to say that it is lost.
    """
    statuses = [one for one in pod.status.container_statuses if one.name in pod.application]
    if not any(one.has_started or one.restart_count for one in statuses):
        statuses = [one for one in pod.status.init_container_statuses if _has_failed(one)]
    for status in statuses:
        for back in range(min(status.restart_count, 2), 0, -1):
            yield _run(pod, status, back), True
        if status.state.running is not None or _has_ended(status):
            yield _run(pod, status, 0), _has_ended(status)


def is_over(pod: TaskPod) -> bool:
    """Report whether it has run, as far as it did, and does not run now."""
    found = [is_ended for _, is_ended in runs(pod)]
    return all(found) and (bool(found) or is_final(pod))


def _has_ended(status: ContainerStatus) -> bool:
    waiting = status.state.waiting
    return status.state.terminated is not None or (waiting is not None and waiting.reason == "CrashLoopBackOff")


def _has_failed(status: ContainerStatus) -> bool:
    ended = status.state.terminated
    return _has_ended(status) and (ended is None or ended.exit_code != 0)


def _run(pod: TaskPod, status: ContainerStatus, back: int) -> Run:
    meta, (attempt, run), restart = pod.metadata, pod.attempt, status.restart_count - back
    barrier = pod.container(names.BARRIER_CONTAINER) if is_in_place(pod) else None
    epoch = 0 if barrier is None else max(0, barrier.restart_count - back)
    ids = meta.namespace, meta.name, meta.uid
    return Run(framework_uid(pod), attempt, pod.role, pod.index, run, *ids, status.name, restart, epoch)
