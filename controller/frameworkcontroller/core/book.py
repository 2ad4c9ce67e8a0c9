"""What the controller holds true of one Framework, and how much of it the API server shows already.

Every change gets the next revision. A write of the status carries all revisions up to one; once acknowledged, whatever
waited for it is dirty again, and nothing else is looked at: a pass costs as much as there is news.
"""

from __future__ import annotations

import gzip
import heapq
from base64 import b64decode
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec
from msgspec.structs import replace

from frameworkcontroller.api.states import ASSOCIATED, State
from frameworkcontroller.api.types import ROLES_DECODER, FrameworkStatus, TaskRoleStatus, TaskStatus

from . import announce
from .effects import Shown
from .ledger import RoleLedger
from .rescale import rescale
from .snapshots import Trigger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from frameworkcontroller.api.types import FrameworkSpec

    from .announce import Announcement

Stateful: TypeAlias = FrameworkStatus | TaskStatus
Slot: TypeAlias = tuple[str, int]
"""A Task: its role's name and its index."""


# A Task in one of these does nothing more until the API server shows it.
ACTING: Final = frozenset({State.CREATION_PENDING, State.DELETION_PENDING, State.ATTEMPT_COMPLETED})


@dataclass(frozen=True)
class Transition:
    """A change of state that is decided, for logs: of what, from, to, and why if it ended."""

    kind: str
    subject: str
    before: State
    after: State
    reason: str = ""
    code: int | None = None


def roles_of(status: FrameworkStatus) -> tuple[TaskRoleStatus, ...]:
    """The roles of a stored status, from whichever of the two fields holds them."""
    attempt = status.attempt_status
    if attempt.task_role_statuses is not None:
        return attempt.task_role_statuses
    compressed = attempt.task_role_statuses_compressed
    if isinstance(compressed, str) and compressed:
        return ROLES_DECODER.decode(gzip.decompress(b64decode(compressed)))
    return ()


def plain(status: FrameworkStatus) -> FrameworkStatus:
    """The status with its roles in the plain field, whichever field they came in, for comparison."""
    attempt = replace(
        status.attempt_status, task_role_statuses=roles_of(status), task_role_statuses_compressed=msgspec.UNSET
    )
    return replace(status, attempt_status=attempt)


@dataclass(frozen=True)
class Forgotten:
    """The last state of a Task that is no more."""

    trigger: Trigger
    role: str
    role_uid: str
    task: TaskStatus


class Book:
    """The status, the roles and their revisions. ``status`` holds no roles: they are kept beside it, countable."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.status: FrameworkStatus | None = None
        self.roles: dict[str, RoleLedger] = {}
        self.revision = 0
        self.acknowledged = 0
        self.pressing = False
        """Whether a change since the last write holds something up until it is shown."""
        self.waits_for_arrival = False
        """Whether a Task is ready only once its Pod's barrier runs."""
        self._own_revision = 0
        self._rescaled = 0
        """The revision of the last rescale: a role that is gone has none of its own."""
        self._dirty: dict[Slot, None] = {}
        self._awaiting: dict[Slot, int] = {}
        self._alarms: list[tuple[datetime, Slot]] = []
        self._transitions: list[Transition] = []
        self._forgotten: list[Forgotten] = []
        self._announcements: list[tuple[int, Announcement]] = []
        self._told: tuple[int, bool] | None = None

    def load(self, status: FrameworkStatus) -> None:
        """Go on from a stored status: all of it is shown, and all of it is to be looked at."""
        self.roles = {role.name: RoleLedger.load(role) for role in roles_of(status)}
        self.status = replace(
            status,
            attempt_status=replace(
                status.attempt_status, task_role_statuses=None, task_role_statuses_compressed=msgspec.UNSET
            ),
        )
        self.touch_all()

    # --- the Framework -----------------------------------------------------------------------------------------------

    @property
    def known(self) -> FrameworkStatus:
        """The status, once there is one."""
        assert self.status is not None
        return self.status

    @property
    def shown(self) -> bool:
        """Whether the API server shows the Framework's own state (each Task has its own answer)."""
        return self._own_revision <= self.acknowledged

    def set(self, status: FrameworkStatus) -> None:
        """Change the Framework's own part."""
        before = self.status
        self.status = status
        self.touch_own()
        self.pressing = True
        if before is not None and before.state is not status.state:
            self._note("framework", self._name, before, status)
        if before is not None:
            for announcement in announce.of_framework(before, status):
                self.announce(announcement)

    def wait_for_arrival(self, *, wanted: bool) -> None:
        """Take over what makes a Task ready; if that is something else now, each is to be looked at again."""
        if wanted != self.waits_for_arrival:
            self.waits_for_arrival = wanted
            self.touch_all()

    def touch_own(self) -> None:
        """The Framework's own part has changed."""
        self.revision += 1
        self._own_revision = self.revision

    def renew(self) -> None:
        """A new attempt: all Tasks are forgotten."""
        self.roles.clear()
        self._dirty.clear()
        self._awaiting.clear()
        self._alarms.clear()
        self._told = None

    def rescale(self, spec: FrameworkSpec, now: datetime, new_uid: Callable[[], str]) -> None:
        """Bring the roles in line with the spec."""
        revision = self.revision + 1
        going = [
            Forgotten(Trigger.TASK_DELETION, ledger.name, ledger.instance_uid, ledger.tasks[index])
            for ledger in self.roles.values()
            for index in sorted(ledger.going)
        ]
        counted = {name: ledger.counts.active for name, ledger in self.roles.items()}
        counted_before = bool(counted)
        changed = list(
            rescale(
                self._name, spec, self.roles, now=now, new_uid=new_uid, revision=revision, persisted=self.acknowledged
            )
        )
        if changed:
            self.touch_own()
            self._rescaled = revision
            self.pressing = True
            self._forgotten += [one for one in going if self.task((one.role, one.task.index)) is not one.task]
            for name, index in changed:
                if index >= 0:
                    self._dirty[name, index] = None
                    self._awaiting[name, index] = revision
            for role in spec.task_roles or ():
                before = counted.pop(role.name, 0)
                if counted_before and before != role.task_number:
                    self.announce(announce.of_rescale(role.name, before, role.task_number))
            for name, before in counted.items():
                if before:
                    self.announce(announce.of_rescale(name, before, 0))

    def set_graceful_timeout(self, role: str, seconds: int | None) -> None:
        """Take over a role's setting; it is used only once it is shown."""
        ledger = self.roles.get(role)
        if ledger is None or ledger.graceful_timeout_sec == seconds:
            return
        self.touch_own()
        ledger.graceful_timeout_sec, ledger.own_revision = seconds, self.revision
        for index in range(len(ledger.tasks)):
            self._awaiting[role, index] = self.revision

    def tell_tasks_once(self, *, over: bool) -> bool:
        """Whether the Tasks have yet to hear that the attempt is ending, or over."""
        told = (self.known.attempt_status.id, over)
        if self._told == told:
            return False
        self._told = told
        return True

    # --- Tasks -------------------------------------------------------------------------------------------------------

    def task(self, slot: Slot) -> TaskStatus | None:
        """The Task, None if it has been removed."""
        ledger = self.roles.get(slot[0])
        return None if ledger is None or not 0 <= slot[1] < len(ledger.tasks) else ledger.tasks[slot[1]]

    def put(self, slot: Slot, new: TaskStatus) -> None:
        """Change a Task; it is looked at again once that is shown."""
        self.revision += 1
        ledger = self.roles[slot[0]]
        before = ledger.tasks[slot[1]]
        self.pressing = self.pressing or new.state in ACTING
        if new.attempt_status.id > before.attempt_status.id:
            self._forgotten.append(Forgotten(Trigger.TASK_RETRY, ledger.name, ledger.instance_uid, before))
        ledger.put(slot[1], new, self.revision)
        self._awaiting[slot] = self.revision
        if before.state is not new.state:
            self._note("task", new.attempt_status.pod_name, before, new)
            for announcement in announce.of_task(slot[0], before, new):
                self.announce(announcement)

    def _note(self, kind: str, subject: str, before: Stateful, after: Stateful) -> None:
        end = after.completion
        reason, code = (end.phrase, end.code) if end is not None else ("", None)
        self._transitions.append(Transition(kind, subject, before.state, after.state, reason, code))

    def is_shown(self, slot: Slot) -> bool:
        """Whether the API server shows the Task as it is here, with the settings of its role."""
        ledger = self.roles[slot[0]]
        return max(ledger.revisions[slot[1]], ledger.own_revision) <= self.acknowledged

    @property
    def has_pods(self) -> bool:
        """Whether a Task's Pod is recorded and not seen to be gone."""
        return any(ledger.by_state[state] for ledger in self.roles.values() for state in ASSOCIATED)

    def slots(self) -> Iterator[Slot]:
        """Every Task."""
        return ((name, index) for name, ledger in self.roles.items() for index in range(len(ledger.tasks)))

    def touch(self, slot: Slot) -> None:
        """Look at the Task in the next pass."""
        self._dirty[slot] = None

    def touch_all(self) -> None:
        """Look at every Task in the next pass."""
        self._dirty |= dict.fromkeys(self.slots())

    def touch_at(self, slot: Slot, moment: datetime) -> None:
        """Look at the Task when this time has come."""
        heapq.heappush(self._alarms, (moment, slot))

    def touch_when_shown(self, slot: Slot) -> None:
        """Look at the Task when everything up to now is shown."""
        self._awaiting[slot] = self.revision

    def take_dirty(self, now: datetime) -> list[Slot]:
        """The Tasks to look at now; they are clean then."""
        while self._alarms and self._alarms[0][0] <= now:
            self.touch(heapq.heappop(self._alarms)[1])
        dirty, self._dirty = list(self._dirty), {}
        return dirty

    @property
    def next_alarm(self) -> datetime | None:
        """When a Task asks to be looked at without being told."""
        return self._alarms[0][0] if self._alarms else None

    # --- what is shown -----------------------------------------------------------------------------------------------

    def acknowledge(self, revision: int) -> None:
        """The API server has everything up to this revision."""
        self.acknowledged = revision
        due = [slot for slot, needed in self._awaiting.items() if needed <= revision]
        for slot in due:
            del self._awaiting[slot]
            self._dirty[slot] = None

    @property
    def size(self) -> int:
        """All Tasks, those on their way out included."""
        return sum(len(ledger.tasks) for ledger in self.roles.values())

    def readiness(self, spec: FrameworkSpec) -> tuple[int, int]:
        """Tasks that are ready, and all that the spec asks for."""
        wanted = spec.task_roles or ()
        ready = sum(self.roles[role.name].counts.ready for role in wanted if role.name in self.roles)
        return ready, sum(role.task_number for role in wanted)

    def show(self, spec: FrameworkSpec) -> Shown:
        """The roles as they are to be written, with what is counted about them."""
        wanted = spec.task_roles or ()
        ledgers = [self.roles[role.name] for role in wanted if role.name in self.roles]
        ready, total = self.readiness(spec)
        return Shown(
            roles=tuple(ledger.snapshot() for ledger in self.roles.values()),
            order=tuple(role.name for role in wanted),
            ready=ready,
            total=total,
            by_arrival=self.waits_for_arrival,
            member_revision=max([self._rescaled, *(ledger.member_revision for ledger in ledgers)]),
        )

    def announce(self, announcement: Announcement) -> None:
        """Tell people, once everything up to now is shown."""
        self._announcements.append((self.revision, announcement))

    def take_announcements(self) -> list[Announcement]:
        """What may be told now: nobody hears of a change that the API server does not show."""
        if not self._announcements:
            return []
        due = [announcement for revision, announcement in self._announcements if revision <= self.acknowledged]
        self._announcements = [entry for entry in self._announcements if entry[0] > self.acknowledged]
        return due

    def take_forgotten(self) -> list[Forgotten]:
        """The Tasks that a retry or a rescale has put another in the place of."""
        forgotten, self._forgotten = self._forgotten, []
        return forgotten

    def take_transitions(self) -> list[Transition]:
        """The changes of state since the last call."""
        transitions, self._transitions = self._transitions, []
        return transitions
