"""The Tasks of a role and their counts, which rules ask, and which are kept up to date instead of recounted.

A change of one Task costs O(1). Its `revision` says which write of the status contains it, or what it follows.
"""

from array import array
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Self, TypeAlias

from msgspec import UNSET, UnsetType

from frameworkcontroller.api.codes import TypeName
from frameworkcontroller.api.spec import FrameworkSpec
from frameworkcontroller.api.states import ASSOCIATED, State
from frameworkcontroller.api.status import EncodedRole, TaskRoleStatus, TaskStatus
from frameworkcontroller.core.clock import EARLIEST, LATEST
from frameworkcontroller.core.policies.classification import text_length
from frameworkcontroller.core.policies.readiness import is_ready

ROLE: Final = 7
"""So many Tasks take as much memory as a TaskRole without any."""
FRAMEWORK: Final = 50
"""So many Tasks take as much memory as a Framework without any."""
ENDED_TASK: Final = 3
"""So many Tasks that have not begun take as much memory as one that has ended."""
TEXT_BYTES: Final = 1500
"""Of texts, which take as much as a Task."""

TaskKey: TypeAlias = tuple[str, int]
"""A Task: the name of its role and its index."""


@dataclass(slots=True)
class Counts:
    """How many Tasks that are not deletionPending are ready, completed and so on."""

    active: int = 0
    ready: int = 0
    created: int = 0
    completed: int = 0
    failed: int = 0
    succeeded: int = 0
    instances: int = 0
    """Have been seen in a Pod whose barrier starts again with each epoch."""
    succeeding: int = 0
    """Have succeeded, and are not Completed yet."""
    failing: int = 0
    """Have failed, and are not Completed yet."""
    placed: int = 0
    """Have a node; this one and the next three are of Tasks whose attempt has not ended."""
    there: int = 0
    """Can be reached by peers, or run."""
    running: int = 0
    held: int = 0
    """Of applications that want to end, and wait for others."""

    def add(self, task: TaskStatus, sign: int) -> None:
        """Add the Task (sign 1) or remove it (sign -1)."""
        if task.deletion_pending:
            return
        self.active += sign
        attempt, ready = task.attempt_status, is_ready(task)
        self.ready += sign * ready
        self.created += sign * (attempt.pod_uid is not None)
        self.instances += sign * (attempt.starts is not UNSET)
        if attempt.completion_status is None:
            runs = task.state is State.RUNNING
            self.running += sign * runs
            self.held += sign * (attempt.held is True)
            self.there += sign * (runs or ready)
            self.placed += sign * (runs or ready or bool(attempt.pod_node_name))
            return
        failed = attempt.completion_status.type.name == TypeName.FAILED
        if task.state is State.COMPLETED:
            self.completed += sign
            self.failed += sign * failed
            self.succeeded += sign * (not failed)
        else:
            self.succeeding += sign * (not failed)
            self.failing += sign * failed


@dataclass(slots=True)
class RoleState:
    """One TaskRole: its Tasks by index, the revision of each, and the counts."""

    name: str
    instance_uid: str
    graceful_timeout_sec: int | None
    tasks: list[TaskStatus] = field(default_factory=list)
    revisions: "array[int]" = field(default_factory=lambda: array("q"))
    counts: Counts = field(default_factory=Counts)
    by_state: Counter[State] = field(default_factory=Counter)
    text_bytes: int = 0
    """Of what others have written about the ends of the Tasks."""
    deletion_pending: set[int] = field(default_factory=set)
    """Indexes that are deletionPending."""
    ran: bool = False
    """Whether a Task has entered AttemptRunning in this Framework attempt."""
    dependencies_met: bool | UnsetType = UNSET
    """Whether the role has begun; unset if it has never waited."""
    rank_order: tuple[int, ...] | UnsetType = UNSET
    """The indices of the Tasks in the order of their ranks; unset as long as that is not decided."""
    with_pods: int = 0
    """How many Tasks have a Pod, as far as is known."""
    ready_pods: set[int] = field(default_factory=set)
    """Indexes of the Tasks whose Pods are Ready, kept for roles that others wait for (`dependencies`)."""
    ends: dict[int, tuple[datetime, datetime]] = field(default_factory=dict)
    """By index of a Task whose attempt has ended: when that was first seen, and when its Pod says that it was."""

    @classmethod
    def load(cls, status: TaskRoleStatus | EncodedRole) -> Self:
        """Make a role from its stored status, without its Tasks; all of it is persisted (revision 0)."""
        return cls(
            status.name,
            status.instance_uid,
            status.pod_graceful_deletion_timeout_sec,
            dependencies_met=status.dependencies_met,
            rank_order=status.rank_order,
        )

    @property
    def idle(self) -> int:
        """What its Tasks take that have no Pod, counted in Tasks; and it itself, if none has."""
        ended = (ENDED_TASK - 1) * self.by_state[State.COMPLETED]
        return len(self.tasks) + ended - self.with_pods + (0 if self.with_pods else ROLE)

    @property
    def waits(self) -> bool:
        """Whether the role has not begun: it waits for others, and its Tasks get no Pods."""
        return self.dependencies_met is False

    def append(self, task: TaskStatus, revision: int) -> None:
        """Append a Task."""
        self.tasks.append(task)
        self.revisions.append(revision)
        self._count(task, 1)
        self.text_bytes += text_length(task.completion)

    def put(self, index: int, task: TaskStatus, revision: int) -> None:
        """Replace the Task at its index."""
        old = self.tasks[index]
        if old.attempt_status.id != task.attempt_status.id or old.instance_uid != task.instance_uid:
            self.ends.pop(index, None)
        self._count(old, -1)
        self.tasks[index] = task
        self.revisions[index] = revision
        self._count(task, 1)
        if task.completion is not old.completion:
            self.text_bytes += text_length(task.completion) - text_length(old.completion)

    def pop(self) -> None:
        """Remove the last Task."""
        self._count(gone := self.tasks.pop(), -1)
        self.text_bytes -= text_length(gone.completion)
        self.revisions.pop()
        self.ends.pop(len(self.tasks), None)

    def _count(self, task: TaskStatus, sign: int) -> None:
        self.counts.add(task, sign)
        self.by_state[task.state] += sign
        self.with_pods += sign * (task.state in ASSOCIATED)
        self.ran = self.ran or task.run_time is not None
        if sign < 0:
            self.ready_pods.discard(task.index)
        if task.deletion_pending:
            (self.deletion_pending.add if sign > 0 else self.deletion_pending.discard)(task.index)

    def order_of(self, task: TaskStatus) -> tuple[datetime, datetime, datetime, int]:
        """Return what orders Tasks by their ends. The status has them in whole seconds, and some seconds later.

        Those that another controller has seen to end come first.
        """
        return *self.ends.get(task.index, (EARLIEST, EARLIEST)), task.completion_time or LATEST, task.index

    def active(self) -> Iterator[TaskStatus]:
        """Iterate over the Tasks that the spec still asks for."""
        return (task for task in self.tasks if not task.deletion_pending)

    def snapshot(self) -> TaskRoleStatus:
        """Return the role as it is to be written."""
        return TaskRoleStatus(
            name=self.name,
            instance_uid=self.instance_uid,
            pod_graceful_deletion_timeout_sec=self.graceful_timeout_sec,
            task_statuses=tuple(self.tasks),
            dependencies_met=self.dependencies_met,
            rank_order=self.rank_order,
        )


def idle_in(roles: Mapping[str, RoleState]) -> int:
    """Return what the Tasks of a Framework take that have no Pod, counted in Tasks; and it itself, if none has.

    What others have written about the ends of Tasks counts as so many Tasks as take as much.
    One that waits for its Tasks takes nothing: all that wait would keep the room from each of them.
    """
    used = not roles or any(role.with_pods for role in roles.values())
    texts = sum(role.text_bytes for role in roles.values()) // TEXT_BYTES
    return sum(role.idle for role in roles.values()) + texts + (0 if used else FRAMEWORK)


def wanted_by(spec: FrameworkSpec) -> int:
    """Return what a Framework of this spec takes before it has Pods, counted in Tasks."""
    return FRAMEWORK + ROLE * len(spec.task_roles or ()) + spec.tasks
