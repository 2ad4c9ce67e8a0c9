"""Which Tasks of a Framework are to be decided on again, and when. A pass decides on no other."""

import heapq
from collections.abc import Iterable
from datetime import datetime
from typing import Final

from frameworkcontroller.core.policies.role import TaskKey

MOST_VOID: Final = 64
"""Alarms that an earlier one has made void, beyond as many as there are Tasks with one."""


class DirtyTasks:
    """The Tasks that are dirty now, those that become so when a revision is persisted, and those that do at a time."""

    def __init__(self) -> None:
        self._dirty: dict[TaskKey, None] = {}
        self._awaiting: dict[TaskKey, int] = {}
        self._alarms: list[tuple[datetime, TaskKey]] = []
        self._alarm_of: dict[TaskKey, datetime] = {}
        """The earliest of each Task; others in the heap are void."""

    def touch(self, task_key: TaskKey) -> None:
        """Make the Task dirty."""
        self._dirty[task_key] = None

    def touch_many(self, task_keys: Iterable[TaskKey]) -> None:
        """Make these Tasks dirty."""
        self._dirty |= dict.fromkeys(task_keys)

    def touch_at(self, task_key: TaskKey, moment: datetime) -> None:
        """Make the Task dirty at this time of the steady clock, or earlier; then it asks for the next time again."""
        known = self._alarm_of.get(task_key)
        if known is not None and known <= moment:
            return
        self._alarm_of[task_key] = moment
        heapq.heappush(self._alarms, (moment, task_key))
        if len(self._alarms) > 2 * len(self._alarm_of) + MOST_VOID:
            self._alarms = [(at, one) for one, at in self._alarm_of.items()]
            heapq.heapify(self._alarms)

    def touch_after(self, task_key: TaskKey, revision: int) -> None:
        """Make the Task dirty once this revision is persisted; it takes the place of an earlier one."""
        self._awaiting[task_key] = revision

    def mark_persisted(self, revision: int) -> None:
        """Make the Tasks dirty that waited for this revision, or for an older one."""
        due = [task_key for task_key, needed in self._awaiting.items() if needed <= revision]
        for task_key in due:
            del self._awaiting[task_key]
            self._dirty[task_key] = None

    def take_dirty(self, now: datetime) -> list[TaskKey]:
        """Return the dirty Tasks; they are clean then."""
        while self._alarms:
            moment, task_key = self._alarms[0]
            is_void = self._alarm_of.get(task_key) != moment
            if moment > now and not is_void:
                break
            heapq.heappop(self._alarms)
            if not is_void:
                del self._alarm_of[task_key]
                self.touch(task_key)
        dirty, self._dirty = list(self._dirty), {}
        return dirty

    def clear(self) -> None:
        """Forget all: there are other Tasks now."""
        self._dirty.clear()
        self._awaiting.clear()
        self._alarms.clear()
        self._alarm_of.clear()

    @property
    def next_alarm(self) -> datetime | None:
        """The next time of the steady clock at which a Task becomes dirty by itself."""
        return self._alarms[0][0] if self._alarms else None

    @property
    def is_quiet(self) -> bool:
        """Whether no Task is dirty, and none waits for a write."""
        return not (self._dirty or self._awaiting)
