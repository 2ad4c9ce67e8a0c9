"""Pods that end as soon as they have begun, of Tasks and Frameworks that are retried: when they are created again."""

from datetime import datetime
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
from msgspec import Raw

from frameworkcontroller.api import names
from frameworkcontroller.api.spec import TaskRoleSpec, TaskSpec
from frameworkcontroller.api.states import State
from frameworkcontroller.api.status import TaskCompletion
from frameworkcontroller.core.effects import CreatePod, Effect, Outcome, WriteStatus
from frameworkcontroller.core.pods.template import MAX_CONTAINERS_OF_POD
from frameworkcontroller.core.policies.crash_loop import ATTEMPT, CrashLoops, pause_after
from frameworkcontroller.core.policies.role import TaskKey
from frameworkcontroller.core.policies.shares import Shares
from tests.controller.core.manual import Manual, bad_and_good
from tests.controller.core.scenarios.lives import tasks
from tests.controller.core.values import at, core_config, ended, known, moment, role, spec, task
from tests.support.memory import memory

S = State
KEY = ("worker", 0)
CRASH = ended(1)
FREE = [0, 0, 0, 0]


# --- the rules -------------------------------------------------------------------------------------------------------


def end(
    loops: CrashLoops,
    begun: float,
    now: float,
    completion: TaskCompletion = CRASH,
    was: State = S.RUNNING,
    key: TaskKey = KEY,
) -> None:
    loops.note(key, task(was, since=begun), task(S.DELETION_PENDING, completion, since=now), moment(now))


def in_a_row(number: int, *keys: TaskKey) -> CrashLoops:
    loops = CrashLoops()
    for key in (keys or (KEY,)) * number:
        end(loops, 0, 1, key=key)
    return loops


def tasks_pause(who: str, seconds: int) -> str:
    again = f"their Pods are created again after pauses of up to {seconds} s"
    until = "until crashLoopPause of the controller is false or the template changes"
    return f"{who} ended within 10 s of their start five times in a row or more: {again}, {until}"


def between(times: list[float]) -> list[float]:
    """The seconds from each to the next."""
    return [later - earlier for earlier, later in pairwise(times)]


@pytest.mark.parametrize(
    ("ends", "seconds"),
    [(0, 0), (1, 0), (4, 0), (5, 10), (6, 20), (7, 40), (8, 80), (9, 160), (10, 300), (11, 300), (10**9, 300)],
)
def test_the_pause_grows_from_the_fifth_end_on(ends: int, seconds: int) -> None:
    assert pause_after(ends) == seconds


def test_a_task_that_pauses_takes_little_memory() -> None:
    keys = [("worker", index) for index in range(1000)]
    loops, before, after = CrashLoops(), task(S.RUNNING, since=0), task(S.DELETION_PENDING, CRASH, since=1)
    with memory() as used:
        for second in range(6):
            for key in keys:
                loops.note(key, before, after, moment(1 + second))
        for key in keys:
            assert loops.hold(key, at(6))
        assert used() / len(keys) < 400


class End(NamedTuple):
    """How an instance that began at 100 s ends, after four short runs, and the pauses after that and after one more."""

    pauses: tuple[int, int]
    now: float = 101
    completion: TaskCompletion = CRASH
    was: State = S.RUNNING


COUNTS, IS_FORGOTTEN, SAYS_NOTHING = (10, 20), (0, 0), (0, 10)
ENDS = {
    "it fails": End(COUNTS),
    "it succeeds": End(COUNTS, completion=ended(0)),
    "somebody deletes it": End(COUNTS, completion=ended(-101, "transient")),
    "it was not seen to run": End(COUNTS, was=S.PREPARING),
    "it was not seen before its end": End(COUNTS, was=S.CREATION_REQUESTED),
    "within 10 s": End(COUNTS, now=109),
    "the clock was set back": End(COUNTS, now=99),
    "10 s": End(IS_FORGOTTEN, now=110),
    "longer": End(IS_FORGOTTEN, now=5000, completion=ended(0)),
    "10 s, until the attempt ends": End(IS_FORGOTTEN, now=110, completion=ended(-220, "permanent")),
    "stopped": End(SAYS_NOTHING, completion=ended(-210, "permanent")),
    "the attempt ends": End(SAYS_NOTHING, completion=ended(-220, "permanent")),
    "scaled down": End(SAYS_NOTHING, completion=ended(-230, "permanent")),
    "its deadline is over": End(SAYS_NOTHING, completion=ended(-240, "permanent")),
    "it had no instance": End(SAYS_NOTHING, was=S.CREATION_PENDING),
    "its end was seen before": End(SAYS_NOTHING, was=S.DELETION_PENDING),
    "its end was seen before, and it goes": End(SAYS_NOTHING, was=S.DELETING),
}


@pytest.mark.parametrize("case", ENDS.values(), ids=ENDS)
def test_the_fifth_end_pauses_by_the_time_that_the_instance_ran_and_by_who_ended_it(case: End) -> None:
    loops, begun, now = in_a_row(4), 100.0, case.now
    end(loops, begun, now, case.completion, case.was)
    for pause in case.pauses:
        assert loops.hold(KEY, at(now)) == (at(now + pause) if pause else None)
        begun, now = now, now + 1
        end(loops, begun, now)


@pytest.mark.parametrize(
    ("code", "pauses_after"),
    [(-100, 2), (-200, 1), (0, 10), (1, 10), (-101, 10), (-210, 0), (-240, 0), (-250, 0), (-260, 0)],
)
def test_an_attempt_pauses_after_so_many_that_have_ended_so_at_once(code: int, pauses_after: int) -> None:
    loops, ends = CrashLoops(), 0
    while loops.hold(ATTEMPT, at(1)) is None and ends < 30:
        end(loops, 0, 1, ended(code), key=ATTEMPT)
        ends += 1
    assert ends == (pauses_after or 30)


def test_a_task_that_waits_is_named_until_it_does_not() -> None:
    loops = in_a_row(6)
    assert (loops.why(KEY), loops.describe()) == ("", None), "it has not asked for a Pod"
    assert loops.hold(KEY, at(2)) == at(21)
    assert loops.why(KEY) == "paused for 20 s: its Pod ended within 10 s of its start 6 times in a row"
    assert loops.describe() == ("TasksPaused", tasks_pause("worker-0", 20))
    assert loops.hold(KEY, at(21)) is None
    assert (loops.why(KEY), loops.describe()) == ("", None)


def test_a_task_that_ends_without_a_pod_waits_no_more() -> None:
    loops = in_a_row(5)
    loops.hold(KEY, at(1))
    loops.note(KEY, task(), task(S.ATTEMPT_COMPLETED, ended(-230, "permanent")), moment(2))
    assert loops.describe() is None


@pytest.mark.parametrize(
    ("number", "names"), [(2, "worker-0 and 1 more Task ended"), (13, "worker-0 and 12 more Tasks ended")]
)
def test_of_many_tasks_the_first_is_named(number: int, names: str) -> None:
    keys = [("worker", index) for index in reversed(range(number))]
    loops = in_a_row(5, *keys)
    for key in keys:
        loops.hold(key, at(1))
    assert known(loops.describe())[1].startswith(names)


def pods(template: str, number: int = 1, name: str = "worker") -> TaskRoleSpec:
    return role(name, number, task=TaskSpec(pod=Raw(template.encode())))


CHANGES: dict[str, tuple[list[TaskRoleSpec], set[TaskKey]]] = {
    "nothing that concerns it": ([pods("{}")], set()),
    "more Tasks and roles": ([pods("{}", 5), pods("{}", name="other")], set()),
    "another template": ([pods('{"a":1}')], {KEY, ATTEMPT}),
    "scaled down": ([pods("{}", 0)], {KEY}),
    "its role is removed": ([pods("{}", name="other")], {KEY, ATTEMPT}),
    "all roles are removed": ([], {KEY, ATTEMPT}),
}


@pytest.mark.parametrize(("after", "going"), CHANGES.values(), ids=CHANGES)
def test_a_changed_template_starts_from_none(after: list[TaskRoleSpec], going: set[TaskKey]) -> None:
    loops = in_a_row(10, KEY, ATTEMPT)
    for key in (KEY, ATTEMPT):
        loops.hold(key, at(1))
    assert loops.follow(spec(pods("{}")), spec(*after)) == going
    for key in (KEY, ATTEMPT):
        assert (loops.hold(key, at(1)) is None) is (key in going)
    assert bool(loops.describe()) is (len(going) < 2)


# --- in the life of a Framework --------------------------------------------------------------------------------------

FOR_EVER = 10**6


class Life(Manual):
    """A Framework whose Pods of the role `bad` end again and again, when Pods are created, and when attempts end.

    Args:
        runs: for how many seconds each Pod runs.
        code: by which each Pod ends.
        deleted: after so many seconds of each attempt, somebody deletes its ConfigMap.
        pause: whether crash loops pause.
        in_turn: one of so many ends in each attempt, the next one in the next; 0 if all do.
        spec: what `bad_and_good` takes.
    """

    def __init__(
        self,
        *,
        runs: float = 0,
        code: int = 1,
        deleted: float = FOR_EVER,
        pause: bool = True,
        in_turn: int = 0,
        **spec: Any,
    ) -> None:
        super().__init__(bad_and_good(**spec, good=1), core_config(crash_loop_pause=pause))
        self.in_turn = in_turn
        self.runs, self.code, self.deleted, self.writes = runs, code, deleted, 0
        self.created: dict[str, list[float]] = {}
        self.ended: list[float] = []
        self.world.plan.ends = {"good-0": ["stay"]}

    def send(self, effect: Effect) -> Outcome:
        if isinstance(effect, CreatePod):
            self.created.setdefault(f"{effect.role}-{effect.index}", []).append(self.second_now)
        self.writes += isinstance(effect, WriteStatus)
        return super().send(effect)

    def second(self, seconds: float = 1) -> None:
        for name, pod in self.world.pods.items():
            if name.startswith("fw-bad"):
                ends = not self.in_turn or name == f"fw-bad-{len(self.ended) % self.in_turn}"
                ends = ends and self._has_run_for(self.runs, pod.metadata.creation_timestamp)
                end = self.code if ends else "stay"
                self.world.plan.ends[name.removeprefix("fw-")] = [end]
        super().second(seconds)
        if self.world.stored is not None:
            state, attempt = self.world.status.state, self.world.status.attempt_status
            if state is S.RUNNING and self._has_run_for(self.deleted, attempt.run_time):
                self.world.delete_config_map()
            attempts = attempt.id + (state is S.ATTEMPT_COMPLETED)
            self.ended += [self.second_now] * (attempts - len(self.ended))

    def _has_run_for(self, seconds: float, since: datetime | None) -> bool:
        return (self.world.now - (since or at(0))).total_seconds() >= seconds

    @property
    def second_now(self) -> float:
        return (self.world.now - at(0)).total_seconds()

    def change_template(self, role: int = 0) -> None:
        self.edit_task(role, pod={"spec": {"containers": [{"name": "other"}]}})

    @property
    def gaps(self) -> list[float]:
        """The seconds between the creations of a Pod that ends."""
        return between(self.created["bad-0"])

    @property
    def pauses(self) -> tuple[str, str, str]:
        """The condition: whether anything does, which kind, and why."""
        return self.condition("CrashLoop")


def assert_paused(gaps: list[float], pauses: list[int]) -> None:
    """The end of a Pod takes some seconds beside the pause, and that of an attempt some more."""
    assert len(gaps) >= len(pauses)
    for gap, pause in zip(gaps, pauses, strict=False):
        assert pause <= gap < max(pause + 5, 11), gaps


LONG = [*FREE, 10, 20, 40, 80, 160, 300, 300]
LIVES: dict[str, tuple[dict[str, Any], int, list[int]]] = {
    "a Task that fails": ({"retries": -2}, 1400, LONG),
    "a Task that succeeds": ({"retries": -2, "code": 0}, 1400, LONG),
    "a Framework that fails": ({"framework": -2}, 1400, LONG),
    "a Framework that succeeds": ({"framework": -2, "code": 0}, 1400, LONG),
    "a Task with few retries": ({"retries": 6}, 400, [*FREE, 10, 20]),
}


@pytest.mark.parametrize(("kind", "seconds", "pauses"), LIVES.values(), ids=LIVES)
def test_a_pod_that_ends_at_once_is_created_later_and_later(
    kind: dict[str, Any], seconds: int, pauses: list[int]
) -> None:
    life = Life(**kind)
    if kind == {"framework": -2, "code": 0}:
        life.world.spec["taskRoles"].pop()  # the attempt succeeds only when all have
    life.live(seconds)
    assert_paused(life.gaps, pauses)
    assert len(life.gaps) <= len(pauses) + 2
    assert (life.world.status.state is S.COMPLETED) == (kind == {"retries": 6})


def test_its_peers_do_not_pause_while_the_framework_is_retried() -> None:
    life = Life(framework=-2)
    life.live(400)
    attempts = len(life.created["good-0"])
    assert attempts >= len(life.created["bad-0"]) > 8
    waited = [later - earlier for earlier, later in zip(life.created["good-0"], life.created["bad-0"], strict=False)]
    assert max(waited[:5]) < 3
    assert max(waited) > 100, "the one that crashes has paused, and its peer was there at once"
    assert life.pauses[2].startswith("bad-0 ended")


def test_a_gang_says_that_it_waits_for_a_task_that_pauses() -> None:
    life = Life(retries=-2)
    barrier = {"name": names.BARRIER_CONTAINER, "image": "x"}
    for place in (0, 1):
        life.edit_task(place, pod={"spec": {"initContainers": [barrier], "containers": [{"name": "main"}]}})
    life.live(120)
    why = "paused for 80 s: its Pod ended within 10 s of its start 8 times in a row"
    assert life.condition("GangReady")[1:] == ("NotCreated", f"1/2: bad-0 NotCreated: {why}")


def test_a_paused_task_that_is_scaled_down_is_removed_and_forgotten() -> None:
    life = Life(retries=-2, tasks=2)
    life.live(150)
    life.edit_role(0, taskNumber=1)
    life.live(5)
    assert "bad-1" not in tasks(life.world)
    assert life.pauses[2].startswith("bad-0 ended")
    before = len(life.created["bad-1"])
    life.edit_role(0, taskNumber=2)
    life.live(20)
    assert len(life.created["bad-1"]) >= before + 3


def test_another_controller_starts_from_none_and_takes_the_condition_back() -> None:
    life = Life(retries=-2)
    life.live(150)
    before = len(life.created["bad-0"])
    life.start()
    life.runs = 11
    life.live(3)
    assert len(life.created["bad-0"]) == before + 1
    assert life.pauses[0] == "False"


def test_who_suspends_and_resumes_a_framework_shortens_no_pause() -> None:
    """At rest it was forgotten, with its runs: 800 Pods in 40 s instead of 140."""
    life = Life(retries=-2)
    life.live(60)
    life.edit(suspend=True)
    life.live(6)
    assert life.world.status.state is S.CREATION_PENDING
    assert life.world.config_map is None
    decision = life.decide()
    assert (decision.at_rest, decision.wake_at is not None) == (False, True)
    life.live(400)
    assert life.decide().at_rest


# --- attempts that end at once ---------------------------------------------------------------------------------------

SOON = "its attempt has ended soon after its start, or its Pods are refused for good: the next one begins "
UNTIL = ", until crashLoopPause of the controller is false or a template changes"
WAITS = ("True", "AttemptPaused", f"{SOON}when others like it have begun, one a second{UNTIL}")
PAUSES = ("True", "AttemptPaused", f"{SOON}after a pause of 40 s{UNTIL}")


def retried(**more: Any) -> Life:
    """A Framework that is retried for ever."""
    return Life(framework=-2, runs=FOR_EVER, **more)


def refused() -> Life:
    """The API server refuses its Pods for good."""
    life = retried()
    life.world.plan.refuse["bad-0"] = [422] * 1000
    return life


def too_large(*, pause: bool = True) -> Life:
    """The API server refuses its status, with any Tasks."""
    life = retried(pause=pause, tasks=50)
    life.world.max_status_bytes = 10_000
    return life


LATER = LONG[len(FREE) :]


@pytest.mark.parametrize(
    ("life", "pauses"),
    [(retried(deleted=0), [*FREE[:1], *LATER[2:]]), (refused(), LATER[2:]), (too_large(), LATER[2:])],
    ids=["others delete its ConfigMap", "its Pods are refused", "its status is refused"],
)
def test_after_attempts_that_end_at_once_the_next_one_begins_later_and_later(life: Life, pauses: list[int]) -> None:
    life.live(1400)
    gaps = between(life.ended)
    for gap, pause in zip(gaps, pauses, strict=False):
        assert pause <= gap < 1.2 * pause + 11, gaps
    assert len(pauses) <= len(life.ended) < len(pauses) + 4


def test_attempts_that_another_task_ends_each_time_pause_from_the_tenth_on() -> None:
    """No Pod pauses then: 30 Tasks made 690 Pods in 40 s, and would have made 4,500 before the first one paused."""
    life = Life(framework=-2, tasks=4, in_turn=4)
    life.live(150)
    gaps = between(life.ended)
    assert max(gaps[:9]) <= 10
    assert all(gap >= wanted for gap, wanted in zip(gaps[9:], (10, 20, 40), strict=False))
    assert life.pauses[1] == "AttemptPaused"


def beside(life: Life, others: int = 30) -> Life:
    """Begin so many other attempts of its namespace that can only fail, or follow one that has ended at once."""
    for _ in range(others):
        life.shares.attempts.reserve(life.now.steady.timestamp())
    return life


def hopeless(*, pause: bool = True, others: int = 30) -> Life:
    """A Framework with a Pod that can never be."""
    life = retried(pause=pause)
    life.edit_task(0, pod={"spec": {"containers": [{}] * (MAX_CONTAINERS_OF_POD + 1)}})
    return beside(life, others)


def test_of_a_namespace_ten_attempts_that_can_only_fail_begin_at_once_and_then_one_a_second() -> None:
    pace = Shares().attempts
    for now in (100, 200):
        assert [pace.reserve(now) for _ in range(13)] == [0] * 10 + [1, 2, 3]


@pytest.mark.parametrize(
    ("life", "before"),
    [(hopeless(), 0), (beside(retried(deleted=0)), 1)],
    ids=["one that can only fail", "the one after one that others have ended"],
)
def test_an_attempt_waits_for_its_turn_and_says_so(life: Life, before: int) -> None:
    life.live(15)
    assert (life.world.config_map, len(life.ended)) == (None, before)
    assert life.pauses == WAITS
    life.live(15)
    assert len(life.ended) == before + 1
    assert 21 <= life.ended[before] < 30


@pytest.mark.parametrize("kind", ["few others can only fail", "the setting is off", "another template can make Pods"])
def test_an_attempt_begins_at_once_if(kind: str) -> None:
    life = hopeless(pause=kind != "the setting is off", others=9 if kind.startswith("few") else 30)
    if kind.startswith("another"):
        life.live(3)
        life.change_template()
    life.live(3)
    assert life.world.status.state is not S.CREATION_PENDING


NOBODY_PAUSES = {
    "the setting is off for Tasks": Life(retries=-2, pause=False),
    "the setting is off for a Framework whose Tasks fail": Life(framework=-2, pause=False),
    "the setting is off for one that another Task ends each time": Life(framework=-2, tasks=4, in_turn=4, pause=False),
    "the setting is off for one whose ConfigMap is deleted": beside(retried(deleted=0, pause=False)),
    "the setting is off for one whose status is too large": too_large(pause=False),
    "each attempt has run for 11 s": beside(retried(deleted=11)),
}


@pytest.mark.parametrize("life", NOBODY_PAUSES.values(), ids=NOBODY_PAUSES)
def test_nobody_pauses_if(life: Life) -> None:
    life.live(200)
    times = life.ended or life.created["bad-0"]
    assert len(times) > 10
    assert max(between(times)) <= 11 + 7
    assert life.pauses == ("", "", "")


# --- whatever pauses -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("life", "seconds", "condition", "state"),
    [
        (Life(retries=-2, tasks=3), 120, ("True", "TasksPaused", tasks_pause("bad-0 and 2 more Tasks", 80)), S.RUNNING),
        (retried(deleted=0), 30, PAUSES, S.ATTEMPT_COMPLETED),
    ],
    ids=["Tasks", "the attempt"],
)
def test_who_pauses_is_said_with_no_write_a_second_and_ends_at_once_when_it_is_stopped(
    life: Life, seconds: int, condition: tuple[str, str, str], state: State
) -> None:
    life.live(seconds)
    assert (life.world.status.state, life.pauses) == (state, condition)
    if state is S.RUNNING:
        bad = [task for name, task in tasks(life.world).items() if name.startswith("bad")]
        assert {(one.state, one.retry_policy_status.retry_delay_sec) for one in bad} == {(S.CREATION_PENDING, None)}
    before = life.writes
    life.live(10)
    assert life.writes == before
    life.world.stop()
    life.live(10)
    assert life.world.status.state is S.COMPLETED
    assert life.pauses[:2] == ("False", "NoTaskPaused")


def test_a_changed_template_goes_on_at_once_and_starts_from_none_but_no_other_edit_does() -> None:
    life = Life(retries=-2)
    life.live(120)
    before = len(life.created["bad-0"])
    life.change_template(role=1)
    life.edit(description="x")
    life.live(20)
    assert len(life.created["bad-0"]) == before
    assert life.pauses[0] == "True"
    now = life.second_now
    life.change_template()
    life.live(60)
    assert life.created["bad-0"][before] - now <= 2
    assert_paused(life.gaps[before:], [*FREE, 10])


def test_who_is_suspended_until_it_rests_takes_its_turn_when_it_is_resumed() -> None:
    """Sixty that were suspended and resumed began 11 attempts a second: at rest all was forgotten."""
    life = beside(retried(pause=True), others=60)
    life.live(5)
    life.edit(suspend=True)
    life.live(15)
    assert not life.decide().at_rest
    life.edit(suspend=False)
    life.live(20)
    assert life.world.config_map is None
    life.live(20)
    assert life.world.config_map is not None


@pytest.mark.parametrize("by", ["suspend", "preempt"])
def test_attempts_that_follow_one_that_was_stopped_soon_after_its_start_take_their_turns(by: str) -> None:
    """150 Frameworks that were suspended and resumed, or preempted, all the time made up to 510 requests a second."""
    life = beside(retried(pause=True))
    life.edit(gangScheduling={"scheduler": "kubernetes"})
    life.live(5)
    if by == "suspend":
        for suspend in (True, False):
            life.edit(suspend=suspend)
            life.live(5)
    else:
        (group,) = life.world.groups.documents
        life.world.groups.preempt(group)
        life.live(10)
    assert life.world.config_map is None
    assert life.pauses[1] == "AttemptPaused"
    life.live(20)
    assert life.world.config_map is not None
