"""What has happened to a Framework and is still to be reported: transitions, Events and history records.

`FrameworkState` writes the journal while it changes; the reconciler takes the entries at the end of each pass and hands
them to the engine in a `Decision`. Each entry is taken once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from frameworkcontroller.core import events

if TYPE_CHECKING:
    from frameworkcontroller.api.states import State
    from frameworkcontroller.api.status import FrameworkStatus, TaskStatus
    from frameworkcontroller.core.events import KubeEvent
    from frameworkcontroller.core.pods.snapshots import Trigger


@dataclass(frozen=True)
class Transition:
    """A decided change of state, for logs and metrics.

    Attributes:
        kind: "framework" or "task".
        subject: the Framework's name or the name of the Task's Pod.
        before: the state that is left.
        after: the state that is entered.
        reason: the phrase of the completion, "" if the attempt has not ended.
        code: of the completion, None if the attempt has not ended.
    """

    kind: str
    subject: str
    before: State
    after: State
    reason: str = ""
    code: int | None = None


@dataclass(frozen=True)
class Milestone:
    """A point that the start of a gang has reached, so many `seconds` after its ConfigMap was created.

    The `seconds` of the phase `released` begin when all of its Pods were addressed.
    """

    phase: str
    seconds: float


@dataclass(frozen=True)
class TaskRecord:
    """The last state of a Task attempt that another one has replaced, or of a Task that was deleted."""

    trigger: Trigger
    role: str
    role_uid: str
    task: TaskStatus


class Journal:
    """The entries that are not taken yet.

    Args:
        name: of the Framework.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._transitions: list[Transition] = []
        self._events: list[tuple[int, KubeEvent]] = []
        self._records: list[TaskRecord] = []

    @property
    def is_empty(self) -> bool:
        """Whether everything was taken."""
        return not (self._transitions or self._events or self._records)

    def add_framework_change(self, before: FrameworkStatus, after: FrameworkStatus, revision: int) -> None:
        """Note a change of the Framework's own part."""
        if before.state is not after.state:
            self._add_transition("framework", self._name, before, after)
        for event in events.of_framework(before, after):
            self.add_event(event, revision)

    def add_task_change(self, role: str, before: TaskStatus, after: TaskStatus, revision: int) -> None:
        """Note a Task's change of state."""
        self._add_transition("task", after.attempt_status.pod_name, before, after)
        for event in events.of_task(role, before, after):
            self.add_event(event, revision)

    def _add_transition(
        self, kind: str, subject: str, before: FrameworkStatus | TaskStatus, after: FrameworkStatus | TaskStatus
    ) -> None:
        end = after.completion
        reason, code = (end.phrase, end.code) if end is not None else ("", None)
        self._transitions.append(Transition(kind, subject, before.state, after.state, reason, code))

    def add_event(self, event: KubeEvent, revision: int) -> None:
        """Note an Event that may be sent once this revision is persisted."""
        self._events.append((revision, event))

    def add_record(self, record: TaskRecord) -> None:
        """Note the last state of a Task or Task attempt that is gone."""
        self._records.append(record)

    def take_transitions(self) -> list[Transition]:
        """Return the changes of state since the last call."""
        transitions, self._transitions = self._transitions, []
        return transitions

    def take_events(self, persisted_revision: int) -> list[KubeEvent]:
        """Return the Events whose revision is persisted: clients see no Event before the status that it speaks of."""
        if not self._events:
            return []
        due = [event for revision, event in self._events if revision <= persisted_revision]
        self._events = [entry for entry in self._events if entry[0] > persisted_revision]
        return due

    def take_records(self) -> list[TaskRecord]:
        """Return the records since the last call."""
        records, self._records = self._records, []
        return records
