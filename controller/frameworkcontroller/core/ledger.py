"""The Tasks of a role with what is counted about them, kept up to date instead of recounted.

A change of one Task costs O(1). ``revision`` says which write of the status will show it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from frameworkcontroller.api.codes import TypeName
from frameworkcontroller.api.states import State
from frameworkcontroller.api.types import TaskRoleStatus, TaskStatus

if TYPE_CHECKING:
    from collections.abc import Iterator


def is_ready(task: TaskStatus) -> bool:
    """Whether peers can find this Task: its Pod is recorded, stays, has an address and, if asked, has arrived."""
    attempt = task.attempt_status
    found = attempt.pod_uid is not None and bool(attempt.pod_ip) and attempt.arrived is not False
    return found and not task.deletion_pending


def _membership(task: TaskStatus) -> tuple[object, ...]:
    attempt = task.attempt_status
    return task.deletion_pending, task.instance_uid, attempt.id, attempt.pod_uid, attempt.pod_ip, attempt.arrived


@dataclass(slots=True)
class Counts:
    """Tasks that are not deletionPending, by what they are."""

    active: int = 0
    ready: int = 0
    running: int = 0
    created: int = 0
    completed: int = 0
    failed: int = 0
    succeeded: int = 0

    def add(self, task: TaskStatus, sign: int) -> None:
        """Count the Task in (1) or out (-1)."""
        if task.deletion_pending:
            return
        self.active += sign
        self.ready += sign * is_ready(task)
        self.created += sign * (task.attempt_status.pod_uid is not None)
        self.running += sign * (task.state is State.RUNNING)
        if task.state is State.COMPLETED and task.completion is not None:
            self.completed += sign
            if task.completion.type.name == TypeName.FAILED:
                self.failed += sign
            else:
                self.succeeded += sign


@dataclass(slots=True)
class RoleLedger:
    """One TaskRole: its Tasks by index, the revision of each, and the counts."""

    name: str
    instance_uid: str
    graceful_timeout_sec: int | None
    tasks: list[TaskStatus] = field(default_factory=list)
    revisions: list[int] = field(default_factory=list)
    counts: Counts = field(default_factory=Counts)
    by_state: Counter[State] = field(default_factory=Counter)
    going: set[int] = field(default_factory=set)
    """Indexes that are deletionPending."""
    ran: bool = False
    """Whether a Task has entered AttemptRunning in this Framework attempt."""
    own_revision: int = 0
    """The revision of the role's own settings."""
    member_revision: int = 0
    """The newest revision that changed what peers need to know of a Task."""

    @classmethod
    def load(cls, status: TaskRoleStatus) -> RoleLedger:
        """From a stored status, all of it persisted (revision 0)."""
        ledger = cls(status.name, status.instance_uid, status.pod_graceful_deletion_timeout_sec)
        for task in status.task_statuses:
            ledger.append(task, 0)
        return ledger

    def append(self, task: TaskStatus, revision: int) -> None:
        """Add a Task at the end."""
        self.tasks.append(task)
        self.revisions.append(revision)
        self.member_revision = revision
        self._count(task, 1)

    def put(self, index: int, task: TaskStatus, revision: int) -> None:
        """Replace the Task at its index."""
        old = self.tasks[index]
        if _membership(old) != _membership(task):
            self.member_revision = revision
        self._count(old, -1)
        self.tasks[index] = task
        self.revisions[index] = revision
        self._count(task, 1)

    def pop(self) -> None:
        """Remove the last Task."""
        self._count(self.tasks.pop(), -1)
        self.revisions.pop()

    def _count(self, task: TaskStatus, sign: int) -> None:
        self.counts.add(task, sign)
        self.by_state[task.state] += sign
        self.ran = self.ran or task.run_time is not None
        if task.deletion_pending:
            (self.going.add if sign > 0 else self.going.discard)(task.index)

    def active(self) -> Iterator[TaskStatus]:
        """The Tasks that the spec still asks for."""
        return (task for task in self.tasks if not task.deletion_pending)

    def snapshot(self) -> TaskRoleStatus:
        """The role as it is to be written."""
        return TaskRoleStatus(
            name=self.name,
            instance_uid=self.instance_uid,
            pod_graceful_deletion_timeout_sec=self.graceful_timeout_sec,
            task_statuses=tuple(self.tasks),
        )
