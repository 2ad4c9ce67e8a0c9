"""What is told of a gang, and when: its roster, the condition GangReady, Events and milestones."""

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from frameworkcontroller.api import names
from frameworkcontroller.api.meta import Identity, Meta
from frameworkcontroller.api.states import State
from frameworkcontroller.api.status import Condition
from frameworkcontroller.core.effects import Failed, RolesSummary, WriteRoster
from frameworkcontroller.core.gang.gang import Gang, attempt_name
from frameworkcontroller.core.gang.publisher import Phase
from frameworkcontroller.core.pods.facts import SpecFacts
from frameworkcontroller.core.policies.readiness import NOT_CREATED, Obstacle
from frameworkcontroller.core.reconcile.gang_pass import obstacles
from frameworkcontroller.core.reconcile.in_flight import InFlight
from frameworkcontroller.core.restart.epoch import Gate
from frameworkcontroller.core.status import gang_ready
from frameworkcontroller.core.status.gang_ready import EVERY, GangReport
from frameworkcontroller.core.status.state import FrameworkState
from frameworkcontroller.core.status.summary import summarize
from tests.controller.core.reconcile.test_runs import run
from tests.controller.core.run import Run
from tests.controller.core.scenarios.lives import RESTARTED, SIDECAR, STAY, TWO_ROLES, WITH_BARRIER, Scenario, all_run
from tests.controller.core.values import START, at, events_in, framework, pod, role, spec, task
from tests.controller.core.world import World

AGAIN = timedelta(seconds=1)
"""So long after a request that has failed the controller looks again."""


class Life:
    """A gang of role `w`: what happens to it, and all that is told of it, each with its second."""

    def __init__(self, number: int, *, barrier: bool = True) -> None:
        self.state, self.wanted, self.in_flight = FrameworkState("fw"), spec(role("w", number)), InFlight(lambda: 0.5)
        self.state.take_over(SpecFacts(members=frozenset({"w"} if barrier else ())))
        self.state.set(framework(State.PREPARING))
        list(self.state.rescale(self.wanted, at(0), lambda: "uid"))
        self.pods: dict[str, Any] = {}
        self.version, self.fails, self.lacks = 1, False, (number, 0)
        self.condition: tuple[str, bool, str, str] | None = None
        self.last: WriteRoster | None = None
        self.stored: WriteRoster | None = None
        self.told: list[str] = []
        self.reached: list[str] = []
        self.begin("1")

    def begin(self, version: str = "") -> None:
        """A controller sees the ConfigMap for the first time, of this version if it has created it itself."""
        annotations = {} if self.last is None else {names.ROSTER_ANNOTATION: self.last.annotation}
        meta = Meta("fw-attempt", "config-map-uid", "1", creation_timestamp=START, annotations=annotations)
        self.gang = Gang(meta, attempt_name(self.state, Identity("fw", "framework-uid", "1", "ns")), version)

    def happen(self, what: str) -> None:
        """One of these sentences, or the addresses of all Tasks: `?` is not known yet, and for `-` there is no Pod."""
        match what:
            case "requests fail" | "requests succeed":
                self.fails = what == "requests fail"
            case "another controller goes on":
                self.begin()
            case "somebody changes it":
                self.version, self.stored = self.version + 1, None
            case "somebody changes something else of it":
                self.version += 1
            case _:
                self.lacks = (what.count("-"), what.count("?"))
                states = {"-": State.CREATION_PENDING, "?": State.CREATION_REQUESTED}
                for index, ip in enumerate(what.split()):
                    state = states.get(ip, State.RUNNING)
                    self.state.put(("w", index), task(state, index=index, ip=None if ip in states else ip, role="w"))

    def missing(self) -> Iterator[tuple[str, Obstacle]]:
        view: Any = SimpleNamespace(pod=self.pods.get)
        return obstacles(self.state, self.in_flight, view)

    def look(self, now: datetime) -> tuple[list[str], list[datetime]]:
        """The controller decides: what it tells, and when it wants to look again."""
        state, summary, news = self.state, summarize(self.state, self.wanted), []
        if summary.has_barriers:
            state.report_gang(gang_ready.decide(state.gang_report, self.missing, now, complete=summary.complete))
        before, self.condition = self.condition, gang_ready.condition(state.gang_report, summary)
        if self.condition is not None and self.condition != before:
            news.append(f"condition {self.condition[2]}, {self.condition[3]}")
        status = self.gang.status(state)
        assert (status.since, status.not_created, status.not_ready) == (START, *self.lacks)
        effect, wake_at = self.gang.decide(state, self.missing, summary, now, str(self.version))
        wakes = [one for one in (wake_at, state.gang_report.due) if one is not None]
        if effect is not None:
            news.append(self.perform(effect))
            wakes += [now + AGAIN] * self.fails
        self.reached += [f"{one.phase} {one.seconds:g}" for one in self.gang.milestones(state, self.wanted, now)]
        state.mark_persisted(state.revisions.now)
        events = events_in(state.reports.take(state.revisions.now))
        kept = [one for one in events if one.reason.startswith(("Gang", "Roster"))]
        return news + [f"{'!' * one.warning}{one.reason}: {one.message.partition(', and')[0]}" for one in kept], wakes

    def perform(self, effect: WriteRoster) -> str:
        """The roster is written, or not; what it says."""
        before, self.last = self.last, effect
        found, phase = json.loads(effect.document), self.gang.status(self.state).phase
        assert found["complete"] is effect.complete is (phase is Phase.COMPLETE)
        assert effect.config_map_uid == "config-map-uid"
        if not self.fails and effect != self.stored:
            self.version, self.stored = self.version + 1, effect
        if (event := self.gang.apply_outcome(effect, None if self.fails else str(self.version))) is not None:
            self.state.add_event(event)
        addresses = [row[1] for one in found.get("taskRoles", ()) for row in one["tasks"]]
        text = ": ".join([f"roster {found['generation']}, {found['ready']}/{found['total']}", *addresses[:1]])
        return "the same roster" if before == effect else " ".join([text, *addresses[1:]])


def life(happens: dict[float, str], *, barrier: bool = True) -> Life:
    """All of it; the controller looks when something happens and when it wants to."""
    found, now, left = Life(len(happens[0].split()), barrier=barrier), START, sorted(happens)
    while True:
        what = f" {happens[left.pop(0)]}" if left and now >= at(left[0]) else ""
        if what:
            found.happen(what.strip())
        told, wakes = found.look(now)
        if what or told:
            found.told.append(" > ".join([f"{(now - START).total_seconds():g}{what}", *told]))
        if not left:
            return found
        before, now = now, min([*wakes, at(left[0])])
        assert before < now


LIVES = """
it starts within ten seconds: complete
0 - - -
3 a ? -
5 > roster 0, 1/3
7 a b c > roster 1, 3/3: a b c > GangReady: All 3 Tasks are ready after 7 s
70 a b c

it is late, and its Tasks are looked at again every ten seconds: complete
0 a - -
5 > roster 0, 1/3
10 > condition NotCreated, 1/3: w-1, w-2 NotCreated
12 a ? -
15 > roster 0, 1/3
20 > condition AttemptCreationRequested, 1/3: w-1 AttemptCreationRequested; w-2 NotCreated
30 > !GangWaiting: 1/3 Tasks are ready after 30 s, not w-1: AttemptCreationRequested; w-2: its Pod is not created yet
41 a b c > condition AllTasksReady, 3/3 > roster 1, 3/3: a b c > GangReady: All 3 Tasks are ready after 41 s
99 a b c

its progress is news every five seconds: complete
0 a - -
4.9 a b -
5 > roster 0, 2/3
5.1 a - -
9.8 a b -
9.9 a b c > roster 1, 3/3: a b c > GangReady: All 3 Tasks are ready after 10 s

it was late, and loses a Task, which is named ten seconds later: degraded
0 a -
5 > roster 0, 1/2
10 > condition NotCreated, 1/2: w-1 NotCreated
12 a b > condition AllTasksReady, 2/2 > roster 1, 2/2: a b > GangReady: All 2 Tasks are ready after 12 s
50 a - > condition TasksNotReady, 1/2 > roster 1, 1/2
60 > condition NotCreated, 1/2: w-1 NotCreated
61 a -

it loses a Task again and again, and gets another one: complete
0 a b > roster 1, 2/2: a b > GangReady: All 2 Tasks are ready after 0 s
5 a - > roster 1, 1/2
6 a b > roster 1, 2/2: a b
11 a - > roster 1, 1/2
11.5 a c > roster 2, 2/2: a c

changes within a second are one generation: complete
0 a b > roster 1, 2/2: a b > GangReady: All 2 Tasks are ready after 0 s
0.5 a c
0.7 a d
1 > roster 2, 2/2: a d
30 a e > roster 3, 2/2: a e

a change is undone within a second: complete
0 a b > roster 1, 2/2: a b > GangReady: All 2 Tasks are ready after 0 s
0.5 a c
0.9 a b
10 a b

requests fail: complete
0 - -
0.5 requests fail
1 a b > roster 1, 2/2: a b > GangReady: All 2 Tasks are ready after 1 s
2 > the same roster
2.5 requests succeed > the same roster
9 a - > roster 1, 1/2
10 a b > roster 1, 2/2: a b

requests fail while it gathers: late
0 a -
4 requests fail
5 > roster 0, 1/2
5.5 requests succeed > the same roster
10 > condition NotCreated, 1/2: w-1 NotCreated
30 > !GangWaiting: 1/2 Tasks are ready after 30 s, not w-1: its Pod is not created yet
31 a -

another controller goes on: complete
0 a b > roster 1, 2/2: a b > GangReady: All 2 Tasks are ready after 0 s
0.5 a c
1 > roster 2, 2/2: a c
5 another controller goes on > the same roster
20 a d > roster 3, 2/2: a d

another controller goes on, and it loses a Task: complete
0 a b > roster 1, 2/2: a b > GangReady: All 2 Tasks are ready after 0 s
1 another controller goes on > the same roster
1.5 a -
5 > roster 1, 1/2
11.5 > condition NotCreated, 1/2: w-1 NotCreated
41 a b > condition AllTasksReady, 2/2 > roster 1, 2/2: a b

somebody changes its roster again and again: complete
0 a b > roster 1, 2/2: a b > GangReady: All 2 Tasks are ready after 0 s
11 somebody changes it > the same roster > !RosterRestored: Somebody else has changed ConfigMap fw-attempt
11.5 somebody changes it
12 > the same roster > !RosterRestored: Somebody else has changed ConfigMap fw-attempt
15 a b

somebody changes nothing that the roster says: complete
0 a b > roster 1, 2/2: a b > GangReady: All 2 Tasks are ready after 0 s
11 somebody changes something else of it > the same roster
15 a b

somebody changes its roster, and the request that mends it fails: complete
0 a b > roster 1, 2/2: a b > GangReady: All 2 Tasks are ready after 0 s
10 requests fail
11 somebody changes it > the same roster
11.5 requests succeed > the same roster
15 a b

somebody changes its progress: gathering
0 a -
5 > roster 0, 1/2
6 somebody changes it > the same roster > !RosterRestored: Somebody else has changed ConfigMap fw-attempt
9 a -

somebody changes its roster as another member comes: complete
0 a b > roster 1, 2/2: a b > GangReady: All 2 Tasks are ready after 0 s
0.5 a c
0.6 somebody changes it
1 > roster 2, 2/2: a c
9 a c

without a barrier, nobody reads how far it is: complete
0 a -
30 > !GangWaiting: 1/2 Tasks are ready after 30 s, not w-1: its Pod is not created yet
34 a b > roster 1, 2/2: a b > GangReady: All 2 Tasks are ready after 34 s
50 a - > roster 1, 1/2
60 - -
65 a b > roster 1, 2/2: a b

without a barrier, requests fail: degraded
0 a b > roster 1, 2/2: a b > GangReady: All 2 Tasks are ready after 0 s
7 requests fail
20 a - > roster 1, 1/2
20.5 requests succeed > the same roster
29 a -

without a barrier, somebody has written one: gathering
0 a -
3 somebody changes it > roster 0, 1/2 > !RosterRestored: Somebody else has changed ConfigMap fw-attempt
9 a -
"""


@pytest.mark.parametrize("text", LIVES.strip().split("\n\n"), ids=lambda text: text.partition(": ")[0])
def test_of_a_gang_is_told(text: str) -> None:
    """Each line: the second, what happens then, and what is told then; `!` is a warning. The title has the phase."""
    title, *lines = text.splitlines()
    rows = [line.partition(" > ")[0].partition(" ") for line in lines]
    happens = {float(second): what for second, _, what in rows if what}
    found = life(happens, barrier="without a barrier" not in title)
    assert (found.told, found.gang.status(found.state).phase) == (lines, title.partition(": ")[2])


def test_the_phases_of_a_start_are_measured_once_and_the_last_from_all_addresses_on() -> None:
    found = life({0: "- - -", 2: "? ? ?", 2.9: "requests fail", 3: "a b c", 3.5: "requests succeed", 9: "a b c"})
    assert found.reached == ["created 2", "addressed 3", "open 3.5", "released 0.5"]
    found.reached.clear()
    found.begin()
    found.look(at(10))
    assert found.reached == [], "another controller does not measure it again"


def test_tasks_that_are_not_ready_are_missing_each_with_the_best_reason() -> None:
    found = Life(4)
    found.happen("- b ? -")
    found.pods["fw-w-2"] = pod("Pending", name="fw-w-2")
    found.in_flight.back_off(("pod", "w", 3), Failed("exceeded quota"), at(0))
    assert list(found.missing()) == [
        ("w-0", NOT_CREATED),
        ("w-2", Obstacle("Pending: no IP yet", "NoAddress")),
        ("w-3", Obstacle("exceeded quota", "NotCreated", "exceeded quota")),
    ]


# --- the condition GangReady -----------------------------------------------------------------------------------------

NO_NODE = "1 Insufficient nvidia.com/gpu, 2 node(s) had untolerated taint {a: }"
PREEMPTION = "preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
UNSCHEDULABLE = Obstacle("Pending: ...", "Unschedulable", f"0/3 nodes are available: {NO_NODE}. {PREEMPTION}")


def summary(ready: int, of_epoch: Gate | None = None) -> RolesSummary:
    return RolesSummary(roles=(), order=(), ready=ready, total=4, by_arrival=False, member_revision=0, gate=of_epoch)


def report_of(*missing: tuple[str, Obstacle]) -> GangReport:
    waiting = GangReport(due=at(0))
    return gang_ready.decide(waiting, complete=False, missing=lambda: missing, now=at(0))


IMAGE = 'main: Back-off pulling image "x"'
KEPT: dict[str, tuple[Obstacle, str, str]] = {
    "scheduler": (UNSCHEDULABLE, "Unschedulable", f"w-2 Unschedulable: {NO_NODE}"),
    "gate": (Obstacle("", "SchedulingGated", ""), "SchedulingGated", "w-2 SchedulingGated"),
    "not created": (NOT_CREATED, "NotCreated", "w-2 NotCreated"),
    "quota": (Obstacle("", "NotCreated", "exceeded quota: q"), "NotCreated", "w-2 NotCreated: exceeded quota: q"),
    "image": (Obstacle("", "ImagePullBackOff", IMAGE), "ImagePullBackOff", f"w-2 ImagePullBackOff: {IMAGE}"),
    "hostile": (Obstacle("", "not one word", "a\n\tb"), "TasksNotReady", "w-2 not one word: a b"),
    "long": (Obstacle("", "X", "y" * 999), "X", f"w-2 X: {'y' * 200}..."),
}


@pytest.mark.parametrize(("obstacle", "reason", "text"), KEPT.values(), ids=KEPT)
def test_a_missing_task_is_named_with_what_keeps_it(obstacle: Obstacle, reason: str, text: str) -> None:
    report = report_of(("w-2", obstacle))
    assert gang_ready.condition(report, summary(3)) == ("GangReady", False, reason, f"3/4: {text}")
    assert gang_ready.condition(report, summary(4)) == ("GangReady", True, "AllTasksReady", "4/4")


def test_tasks_with_the_same_obstacle_share_one_text_and_three_are_named() -> None:
    two = report_of(("w-0", NOT_CREATED), ("w-1", UNSCHEDULABLE), ("w-2", NOT_CREATED))
    assert two.missing == f"w-0, w-2 NotCreated; w-1 Unschedulable: {NO_NODE}"
    many = report_of(*((f"w-{index}", NOT_CREATED) for index in range(99)))
    assert many.missing == "w-0, w-1, w-2 NotCreated; and others"


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("TasksNotReady", "3/4: w-2 NotCreated: exceeded quota: q"),
        ("TasksNotReady", "3/4"),
        ("AllTasksReady", "4/4"),
        # The condition went, and came again when the gang was late once more.
        ("Restarting", "3/4: w-2 Restarting: start 2"),
    ],
)
def test_another_controller_goes_on_with_what_the_status_says(reason: str, message: str) -> None:
    value = "True" if message == "4/4" else "False"
    stored = Condition("GangReady", value, reason, message, START)
    report = gang_ready.load([Condition("Running", "True", "TasksRun", "", START), stored])
    ready = 4 if value == "True" else 3
    assert gang_ready.condition(report, summary(ready)) == ("GangReady", value == "True", reason, message)
    assert gang_ready.load([]) == GangReport()


def test_nobody_looks_at_the_tasks_of_a_gang_before_they_are_named() -> None:
    waits = gang_ready.decide(GangReport(), pytest.fail, at(0), complete=False)
    assert waits.due == at(0) + EVERY
    for report, seconds, complete in ((waits, 9.9, False), (waits, 10, True), (GangReport(late=True), 99, True)):
        gang_ready.decide(report, pytest.fail, at(seconds), complete=complete)


def stop_late(world: World) -> None:
    """Stop it a minute after all run."""
    if all_run(world) and world.now > world.notes.setdefault("since", world.now) + timedelta(minutes=1):
        world.stop()


def started(spec: str, **plan: object) -> Run:
    """The life of a gang that starts."""
    return run(Scenario(-210, STAY, stop_late, spec=spec, plan=plan))


@pytest.mark.parametrize("spec", [WITH_BARRIER, RESTARTED, SIDECAR], ids=["label", "init container", "sidecar"])
def test_the_statuses_of_a_gang_that_starts_at_once_are_those_without_a_barrier(spec: str) -> None:
    assert started(spec).written == started(TWO_ROLES).written


def test_a_late_gang_says_for_whom_it_waits_and_that_it_is_ready_but_not_without_a_barrier() -> None:
    late, without = (started(spec, no_node={"worker-2": 45}) for spec in (SIDECAR, TWO_ROLES))
    assert late.gang_ready == [
        ("False", "Unschedulable", "3/4: worker-2 Unschedulable: 3 Insufficient nvidia.com/gpu"),
        ("True", "AllTasksReady", "4/4"),
    ]
    assert without.gang_ready == []
    # What it says does not change, so that it costs one write.
    assert len(late.written) == len(without.written) + 1


CLOSED, WHY = Gate(1, 0, "worker-1 exited with 7"), "epoch 1: worker-1 exited with 7"


@pytest.mark.parametrize(
    ("gate", "ready", "expected"),
    [
        (Gate(0, 4), 4, None),
        (CLOSED, 3, ("GangReady", False, "Restarting", f"3/4: {WHY}")),
        (CLOSED, 4, ("GangReady", False, "Restarting", f"4/4: {WHY}")),
        (Gate(1, 4, CLOSED.why), 4, ("GangReady", True, "AllTasksReady", "4/4")),
    ],
    ids=["first epoch", "gathers", "opens", "open"],
)
def test_a_gang_that_restarts_in_place_has_the_condition_from_its_first_restart_on(
    gate: Gate, ready: int, expected: tuple[str, bool, str, str] | None
) -> None:
    assert gang_ready.condition(GangReport(), summary(ready, gate)) == expected
