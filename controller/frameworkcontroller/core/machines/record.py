"""What waits for the archive, `frameworkhistory`: the last state of a Framework, and the logs of Pods. Pure.

A finalizer holds the Framework that is deleted until its last state is recorded, for a day at most. A Pod that has
ended is deleted once its logs are kept, half a minute after its end at the latest: its name is needed for a retry.
"""

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Final

from frameworkcontroller.api.framework import Framework
from frameworkcontroller.api.pod import Pod
from frameworkcontroller.api.states import State
from frameworkcontroller.api.status import TaskStatus
from frameworkcontroller.core.clock import after
from frameworkcontroller.core.machines.retention import has_ended

LONGEST_HOLD: Final = timedelta(hours=24)
PATIENCE: Final = timedelta(seconds=30)


def released_at(seen: Framework) -> datetime | None:
    """Return until when the Framework is held that is being deleted, None if it is not, or is not held."""
    deletion = seen.metadata.deletion_timestamp
    return after(deletion, LONGEST_HOLD) if deletion is not None and seen.is_held else None


def is_change_due(seen: Framework, now: datetime, *, history: bool) -> bool:
    """Report whether the finalizer is to be set or removed; without the archive no Framework has it."""
    if not seen.is_held:
        return history and seen.metadata.deletion_timestamp is None
    until = released_at(seen)
    return not history or (until is not None and until <= now)


def logs_awaited_until(task: TaskStatus, pod: Pod, kept: Collection[str] | None, now: datetime) -> datetime | None:
    """Return until when the deletion of the Task's Pod waits for its logs, None if it does not.

    `kept` has the UIDs of Pods whose logs are kept, and is None without an archive. A Task whose wall clock was set
    back does not wait for hours.
    """
    if kept is None or pod.metadata.uid in kept or pod.metadata.deletion_timestamp is not None or not has_ended(pod):
        return None
    since = task.transition_time if task.state is State.DELETION_PENDING else now
    return after(since, PATIENCE) if abs(now - since) < PATIENCE else None
