"""What is decided about one Framework, and how much of it is persisted, that is, how much the API server has.

Every change gets the next of the `Revisions` and makes Tasks dirty. A pass decides on no others, so that it costs as
much as has changed.
"""

from array import array
from collections.abc import Callable, Generator, Iterator
from datetime import datetime
from enum import IntEnum
from typing import Final

from msgspec import UNSET
from msgspec.structs import replace

from frameworkcontroller.api.codes import TypeName
from frameworkcontroller.api.meta import Meta
from frameworkcontroller.api.spec import FrameworkSpec, TaskRoleSpec
from frameworkcontroller.api.states import ASSOCIATED, GOING, State
from frameworkcontroller.api.status import (
    FrameworkAttemptStatus,
    FrameworkStatus,
    GangProgress,
    Hang,
    Ledger,
    TaskStatus,
)
from frameworkcontroller.api.stored_roles import encoded_roles_of, without_roles
from frameworkcontroller.core import events
from frameworkcontroller.core.effects import EffectKey
from frameworkcontroller.core.events import KubeEvent
from frameworkcontroller.core.pods.facts import SpecFacts
from frameworkcontroller.core.policies import classification, dependencies
from frameworkcontroller.core.policies.crash_loop import CrashLoops
from frameworkcontroller.core.policies.readiness import membership
from frameworkcontroller.core.policies.role import RoleState, TaskKey
from frameworkcontroller.core.policies.shares import IdleTasks
from frameworkcontroller.core.queue.verdict import FREE, REASONS, UNKNOWN, WAITING, Verdict
from frameworkcontroller.core.restart import epoch
from frameworkcontroller.core.status import gang_ready
from frameworkcontroller.core.status.conditions import GANG_SCHEDULED, STATUS_TOO_LARGE
from frameworkcontroller.core.status.dirty import DirtyTasks
from frameworkcontroller.core.status.gang_ready import GangReport
from frameworkcontroller.core.status.reports import Reports, transition
from frameworkcontroller.core.status.rescale import rescale
from frameworkcontroller.core.status.revisions import Mark, Revisions
from frameworkcontroller.core.status.sightings import Sightings

# A Task in one of these states does nothing more until the state is persisted.
WAITING_FOR_WRITE: Final = frozenset({State.CREATION_PENDING, State.DELETION_PENDING, State.ATTEMPT_COMPLETED})
# A Task leaves one of these states by what its Pod does.
MOVING: Final = ASSOCIATED - WAITING_FOR_WRITE
# States of a Framework in which nothing waits for a write, unless its attempt is to end.
REPORTED: Final = frozenset({State.CREATION_REQUESTED, State.RUNNING})


# Bytes of what containers and others say of the ends of all Tasks; beyond that so many characters of each text stay.
MAX_TEXTS: Final = 4 * 1024 * 1024
SHORT_TEXT: Final = 256
CHANGES_IN_A_ROW: Final = 250
"""Of a rescale, before others have their turn."""


class Urgency(IntEnum):
    """What waits for the next write of the status."""

    REPORT = 0
    """Nothing; it reports."""
    ENDING = 1
    """The ends of Tasks that are not retried; others may end soon and need no write of their own."""
    URGENT = 2
    """Something that is to go on."""


class FrameworkState:
    """The status of the Framework of this name, the roles and their revisions."""

    def __init__(self, name: str, idle: IdleTasks | None = None) -> None:
        self._name, self._idle = name, idle or IdleTasks()
        self._status: FrameworkStatus | None = None
        self.roles: dict[str, RoleState] = {}
        """By name; `status` holds none, because their Tasks are counted here."""
        self.revisions = Revisions()
        self.dirty = DirtyTasks()
        self.reports = Reports()
        self.urgency = Urgency.REPORT
        self.facts = SpecFacts()
        self.held_back: tuple[str, str] | None = None
        """Why the Framework gets no more TaskRoles or Tasks, as reason and text, None if it does."""
        self.queueing = FREE
        self.too_large = ""
        """Why the Tasks of this attempt are not written: with them the API server does not accept the status."""
        self.gang_report = GangReport()
        self.group_report: tuple[bool, str, str] | None = None
        """What is said of the groups by which a scheduler places the Pods, None while nothing is."""
        self.preempted = ""
        """For whom the scheduler takes the place of the attempt's groups, "" if it does not."""
        self.crash_loops = CrashLoops()
        """Over all attempts."""
        self.sightings = Sightings()
        self.applications: set[TaskKey] = set()
        """The Tasks whose applications run in this epoch, of a gang that restarts in place."""
        self.ledger: Ledger | None = None
        """None until the first pass."""
        self.stretch: tuple[datetime, float] | None = None
        """Since when it runs, and for how many seconds the attempt had hung before."""
        self._restarting_since: datetime | None = None
        self._rescaled: tuple[FrameworkSpec, int] | None = None
        self.text_bytes = 0
        """Of what others have written about the ends of Tasks."""

    def load(self, status: FrameworkStatus) -> Iterator[None]:
        """Go on from a stored status: all of it is persisted, and every Task is dirty. It yields after each Task.

        Raises:
            UnreadableStatusError, msgspec.DecodeError: The status holds something else.
        """
        for role in encoded_roles_of(status):
            role_state = self.roles[role.name] = RoleState.load(role)
            for task in role.tasks():
                before = role_state.text_bytes
                role_state.append(self._within_texts(None, task), 0)
                self.text_bytes += role_state.text_bytes - before
                yield
            yield
        self._status, self.ledger = without_roles(status), status.ledger or None
        self.gang_report = gang_ready.load(status.conditions or ())
        groups = (one for one in status.conditions or () if one.type == GANG_SCHEDULED)
        self.group_report = next(((one.status == "True", one.reason, one.message) for one in groups), None)
        too_large = (one.message for one in status.conditions or () if one.type == STATUS_TOO_LARGE)
        self.too_large = next(too_large, "")
        held = (one for one in status.conditions or () if one.status == "True" and one.reason in REASONS)
        self.queueing = next((Verdict(hold=(one.reason, one.message)) for one in held), FREE)
        self.dirty.touch_many(self.task_keys())

    # --- the Framework -----------------------------------------------------------------------------------------------

    @property
    def has_status(self) -> bool:
        """Whether the Framework was decided on before."""
        return self._status is not None

    @property
    def status(self) -> FrameworkStatus:
        """The Framework's own part of the status. Raises AssertionError while there is none."""
        assert self._status is not None
        return self._status

    def set(self, status: FrameworkStatus, *, urgent: bool = False) -> None:
        """Change the Framework's own part; if it is `urgent`, something waits for the write in any case."""
        before, self._status = self._status, status
        runs = before is not None and (before.state, status.state) == (State.PREPARING, State.RUNNING)
        revision = self.revisions.change(*([Mark.FRAMEWORK] if runs else [Mark.FRAMEWORK, Mark.ATTEMPT]))
        # That its ConfigMap was created is of no use before it is seen, which is written at once. That its first Task
        # runs is a report, and so is how far the deletion of the ConfigMap is.
        only_reports = status.completion is None if status.state in REPORTED else status.state in GOING
        if urgent or not only_reports:
            self.urgency = Urgency.URGENT
        if before is not None:
            if before.state is not status.state:
                self.reports.add(transition("framework", self._name, before, status))
            for event in events.of_framework(before, status, told=self.queueing.hold is not None):
                self.reports.add(event, revision)

    @property
    def gate(self) -> epoch.Gate | None:
        """The gate of a gang that restarts in place, None of any other."""
        return None if self._status is None else epoch.gate_of(self._status.attempt_status, self._restarting_since)

    def tell_hang(self, found: Hang) -> None:
        """Tell people and metrics of a hang that was not known."""
        self.add_event(KubeEvent("GangHung", f"Attempt {found.attempt}: {found.text}", warning=True))
        self.reports.add(found, self.revisions.now)

    def take_over(self, facts: SpecFacts) -> None:
        """Follow what the spec says now, and make the Tasks dirty for which that differs.

        An attempt that has Pods goes on as it began. Timeouts are used only once they are persisted.
        """
        before, self.facts = self.facts, facts
        if facts.restart_problem and facts.restart_problem != before.restart_problem:
            self.add_event(KubeEvent("RestartRefused", facts.restart_problem, warning=True))
        if (facts.waits_for_arrival, facts.depends_on) != (before.waits_for_arrival, before.depends_on):
            self.dirty.touch_many(self.task_keys())
        for name, seconds in facts.graceful_timeouts.items():
            role_state = self.roles.get(name)
            if role_state is not None and role_state.graceful_timeout_sec != seconds:
                role_state.graceful_timeout_sec = seconds
                self._change_settings(role_state, Mark.FRAMEWORK)

    def hold_back(self, why: tuple[str, str] | None) -> None:
        """Set why the Framework gets no more TaskRoles or Tasks; it is written as a condition."""
        if why != self.held_back:
            self.held_back = why
            self.revisions.change(Mark.FRAMEWORK)
            if why:
                reason, text = why
                self.add_event(KubeEvent(reason, text, warning=True))

    def is_to_begin(self, spec: FrameworkSpec) -> bool:
        """Report whether the user wants the next attempt to begin, and the Framework is not held back."""
        return not (spec.is_to_wait or self.held_back) and spec.execution_type != "Stop"

    def follow_queue(self, found: Verdict) -> None:
        """Set what the queue means; that it lets none begin is written as a condition, and nothing waits for that."""
        before, self.queueing = self.queueing, found
        if found.hold is not None and found.hold != before.hold:
            self.revisions.change()
            reason, text = found.hold
            self.add_event(KubeEvent(reason, text, warning=reason != WAITING))
        if found.trouble and found.trouble != before.trouble:
            self.add_event(KubeEvent(UNKNOWN, found.trouble, warning=True))

    def report_groups(self, report: tuple[bool, str, str]) -> None:
        """Set value, reason and message of the condition GangScheduled; the next write has it, nothing waits for it."""
        before, self.group_report = self.group_report, report
        self.revisions.change()
        if not report[0] and (before is None or before[1] != report[1]):
            self.add_event(KubeEvent(*report[1:], warning=True))

    def begin_epoch(self, attempt: FrameworkAttemptStatus, now: datetime) -> None:
        """Let the next epoch of the gang begin, at this steady time."""
        self.set(replace(self.status, attempt_status=attempt), urgent=True)
        self._restarting_since = now
        self.applications.clear()

    def report_progress(self, found: GangProgress) -> None:
        """Set how far the gang is; the next write has it, and nothing waits for that."""
        assert self._status is not None
        self._status = replace(self._status, attempt_status=replace(self._status.attempt_status, progress=found))
        self.revisions.change()

    def report_gang(self, report: GangReport) -> None:
        """Set what is reported of the gang; the next write has it, and nothing waits for that."""
        if report.missing and replace(report, due=self.gang_report.due) != self.gang_report:
            self.revisions.change()
        self.gang_report = report

    def hold_roles(self, spec: FrameworkSpec) -> None:
        """Let every role that depends on others wait for them: the attempt has no Pods yet."""
        for role in spec.task_roles or ():
            role_state = self.roles[role.name]
            if role.depends_on and role_state.dependencies_met is UNSET:
                role_state.dependencies_met = False
                self.revisions.change(Mark.FRAMEWORK)

    def begin_role(self, role: TaskRoleSpec) -> None:
        """Let a role begin; its Tasks may get Pods once that is persisted."""
        self.urgency = Urgency.URGENT
        role_state = self.roles[role.name]
        role_state.dependencies_met = True
        self._change_settings(role_state, Mark.FRAMEWORK, Mark.MEMBERS)
        text = f"TaskRole {role.name} begins: {dependencies.conditions_of(role)}"
        self.add_event(KubeEvent("DependenciesMet", text))

    def _change_settings(self, role_state: RoleState, *marks: Mark) -> None:
        """Let the Tasks of a role follow its settings once these are persisted."""
        role_state.revisions = array("q", [self.revisions.change(*marks)]) * len(role_state.tasks)
        for index in range(len(role_state.tasks)):
            self.touch_when_persisted((role_state.name, index))

    def discard_tasks(self) -> list[TaskStatus]:
        """Drop all roles and Tasks, which are returned: a new attempt begins."""
        gone = [task for role_state in self.roles.values() for task in role_state.tasks]
        self.roles.clear()
        self.dirty.clear()
        self.sightings = Sightings()
        self.gang_report, self.group_report = GangReport(), None
        self.crash_loops.held.clear()
        self.applications.clear()
        self.text_bytes, self.too_large, self.preempted = 0, "", ""
        self._rescaled = None
        return gone

    def forget(self, task_key: TaskKey, gone: TaskStatus) -> None:
        """Forget what was seen of a Task that has been removed, or replaced."""
        self.sightings.forget(gone.attempt_status.pod_uid)
        self.sightings.in_use.pop(("pod", *task_key), None)
        self.applications.discard(task_key)

    def has_scale_of(self, spec: FrameworkSpec) -> bool:
        """Report whether the roles were brought in line with just this spec, and no status was written since."""
        return self.held_back is None and self._rescaled == (spec, self.revisions.persisted)

    def rescale(
        self, spec: FrameworkSpec, now: datetime, new_uid: Callable[[], str]
    ) -> Generator[None, None, list[tuple[RoleState, TaskStatus]]]:
        """Bring the roles in line with the spec, and return the Tasks that are gone, with their roles.

        It costs O(Tasks) once per spec and per write of the status, and yields after some that change.
        """
        persisted, revision = self.revisions.persisted, self.revisions.now + 1
        last, self._rescaled = self._rescaled, (spec, persisted)
        if last is not None and last[1] == persisted and (last[0] is spec or last[0] == spec):
            return []
        marked = [
            (role_state, role_state.tasks[index])
            for role_state in self.roles.values()
            for index in sorted(role_state.deletion_pending)
        ]
        counts = {name: role_state.counts.active for name, role_state in self.roles.items()}
        changed = []
        for change in rescale(
            self._name, spec, self.roles, now=now, new_uid=new_uid, revision=revision, persisted=persisted
        ):
            changed.append(change)
            if len(changed) % CHANGES_IN_A_ROW == 0:
                yield
        if not changed:
            return []
        self.text_bytes = sum(role_state.text_bytes for role_state in self.roles.values())
        self.revisions.change(Mark.FRAMEWORK, Mark.MEMBERS)
        self.urgency = Urgency.URGENT
        for name, index in changed:
            if index >= 0:
                self.dirty.touch((name, index))
                self.dirty.touch_after((name, index), revision)
        if counts:  # the first scale of an attempt is no rescale
            wanted = {role.name: role.task_number for role in spec.task_roles or ()}
            for name in (*wanted, *(name for name in counts if name not in wanted)):
                before, after = counts.get(name, 0), wanted.get(name, 0)
                if before != after:
                    self.add_event(KubeEvent("Rescaled", f"TaskRole {name}: from {before} to {after} Tasks"))
        return [
            (role_state, gone) for role_state, gone in marked if self.task((role_state.name, gone.index)) is not gone
        ]

    # --- Tasks -------------------------------------------------------------------------------------------------------

    def task(self, task_key: TaskKey) -> TaskStatus | None:
        """Return the Task, None if it was removed."""
        name, index = task_key
        role_state = self.roles.get(name)
        return role_state.tasks[index] if role_state is not None and 0 <= index < len(role_state.tasks) else None

    def put(self, task_key: TaskKey, new: TaskStatus) -> None:
        """Change a Task; it is dirty again once the change is persisted."""
        role_state = self.roles[task_key[0]]
        before = role_state.tasks[task_key[1]]
        is_told = membership(before) != membership(new) or (self.facts.progress_ports and new.state is State.COMPLETED)
        revision = self.revisions.change(*([Mark.MEMBERS] if is_told else []))
        if new.completion is not before.completion:
            new = self._within_texts(before, new)
        if new.state in WAITING_FOR_WRITE:
            self.urgency = max(self.urgency, Urgency.ENDING if self._is_final(new) else Urgency.URGENT)
        if new.attempt_status.id > before.attempt_status.id:
            self.sightings.forget(before.attempt_status.pod_uid)
        self.text_bytes -= role_state.text_bytes
        role_state.put(task_key[1], new, revision)
        self.text_bytes += role_state.text_bytes
        self.touch_when_persisted(task_key)
        if before.state is not new.state:
            self.reports.add(transition("task", new.attempt_status.pod_name, before, new))
            for event in events.of_task(role_state.name, before, new):
                self.reports.add(event, revision)

    def _within_texts(self, before: TaskStatus | None, new: TaskStatus) -> TaskStatus:
        """Shorten what others say of the end of a Task, once all Tasks together have much of that, or the namespace."""
        known = 0 if before is None else classification.text_length(before.completion)
        more = classification.text_length(new.completion) - known
        is_much = self._idle.is_full or self.text_bytes + more > MAX_TEXTS
        if new.completion is not None and is_much:
            end = classification.shortened(new.completion, SHORT_TEXT)
            new = replace(new, attempt_status=replace(new.attempt_status, completion_status=end))
        return new

    def _is_final(self, task: TaskStatus) -> bool:
        """Report whether this end of a Task is known to be its last."""
        end = task.completion
        ends_with_attempt = self._status is not None and self._status.completion is not None
        return end is not None and (end.type.name == TypeName.SUCCEEDED or ends_with_attempt or task.deletion_pending)

    @property
    def brings_more(self) -> bool:
        """Whether a Task is in a state that it leaves without a write."""
        return any(role_state.by_state.get(state) for role_state in self.roles.values() for state in MOVING)

    def is_persisted(self, task_key: TaskKey) -> bool:
        """Report whether the API server has the Task as it is here, with the settings of its role."""
        return self.roles[task_key[0]].revisions[task_key[1]] <= self.revisions.persisted

    @property
    def has_pods(self) -> bool:
        """Whether a Task's Pod is in the status and not seen to be gone."""
        return any(role_state.with_pods for role_state in self.roles.values())

    @property
    def lacks_places(self) -> bool:
        """Whether the stored status has left out where Pods run, being large: each Pod with an address has a node."""
        tasks = (task.attempt_status for role_state in self.roles.values() for task in role_state.tasks)
        return any(attempt.pod_ip and attempt.pod_node_name is None for attempt in tasks)

    @property
    def size(self) -> int:
        """The number of Tasks, those that are deletionPending included."""
        return sum(len(role_state.tasks) for role_state in self.roles.values())

    def task_keys(self) -> Iterator[TaskKey]:
        """Iterate over all Tasks."""
        return ((name, index) for name, role_state in self.roles.items() for index in range(len(role_state.tasks)))

    def touch_when_persisted(self, task_key: TaskKey) -> None:
        """Make the Task dirty once everything up to now is persisted."""
        self.dirty.touch_after(task_key, self.revisions.now)

    def mark_persisted(self, revision: int) -> None:
        """Note that the API server has everything up to this revision."""
        self.revisions.persisted = revision
        self.dirty.mark_persisted(revision)

    def note_name_in_use(self, key: EffectKey, about: str, found: Meta) -> None:
        """Note that an object of others, which the cache shows, has the name of one that is to be created."""
        known = self.sightings.in_use.get(key)
        if known is None or known.uid != found.uid:
            self.sightings.in_use[key] = found
            self.add_event(events.of_failure(about, events.NAME_IN_USE))

    def add_event(self, event: KubeEvent) -> None:
        """Send the Event once everything up to now is persisted."""
        self.reports.add(event, self.revisions.now)
