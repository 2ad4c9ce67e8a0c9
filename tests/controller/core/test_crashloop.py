"""Pods that end as soon as they have begun, of Tasks and Frameworks that are retried: when they are created again."""

from __future__ import annotations

import gc
import tracemalloc
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from msgspec import Raw

from frameworkcontroller.api import names
from frameworkcontroller.api.spec import TaskSpec
from frameworkcontroller.api.states import State
from frameworkcontroller.core.effects import CreatePod, WriteStatus
from frameworkcontroller.core.policies.crash_loop import CrashLoops, pause_after
from tests.controller.core.manual import Manual
from tests.controller.core.scenarios import tasks
from tests.controller.core.values import at, core_config, ended, moment, role, spec, task

if TYPE_CHECKING:
    from frameworkcontroller.api.status import Condition, TaskCompletion

S = State
KEY = ("worker", 0)
CRASH = ended(1)
FREE = [0, 0, 0, 0]


# --- the rules -------------------------------------------------------------------------------------------------------


def end(
    loops: CrashLoops, begun: float, now: float, completion: TaskCompletion | None = CRASH, was: State = S.RUNNING
) -> None:
    loops.note(KEY, task(was, since=begun), task(S.DELETION_PENDING, completion, since=now), moment(now))


def in_a_row(number: int) -> CrashLoops:
    loops = CrashLoops()
    for _ in range(number):
        end(loops, 0, 1)
    return loops


@pytest.mark.parametrize(
    ("ends", "seconds"),
    [(0, 0), (1, 0), (4, 0), (5, 10), (6, 20), (7, 40), (8, 80), (9, 160), (10, 300), (11, 300), (10**9, 300)],
)
def test_the_pause_grows_from_the_fifth_end_on(ends: int, seconds: int) -> None:
    assert pause_after(ends) == seconds


def test_a_task_that_pauses_takes_little_memory() -> None:
    keys = [("worker", index) for index in range(10_000)]
    loops, before, after = CrashLoops(), task(S.RUNNING, since=0), task(S.DELETION_PENDING, CRASH, since=1)
    gc.collect()
    tracemalloc.start()
    try:
        for second in range(6):
            for key in keys:
                loops.note(key, before, after, moment(1 + second))
        for key in keys:
            assert loops.hold(key, at(6))
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert used / len(keys) < 400


@pytest.mark.parametrize(
    ("begun", "now", "completion", "was", "pause"),
    [
        pytest.param(100, 101, CRASH, S.RUNNING, 10, id="it fails"),
        pytest.param(100, 101, ended(0), S.RUNNING, 10, id="it succeeds"),
        pytest.param(100, 101, ended(-101, "transient"), S.RUNNING, 10, id="somebody deletes it"),
        pytest.param(100, 101, CRASH, S.PREPARING, 10, id="it was not seen to run"),
        pytest.param(100, 101, CRASH, S.CREATION_REQUESTED, 10, id="it was not seen before its end"),
        pytest.param(100, 109, CRASH, S.RUNNING, 10, id="within 10 s"),
        pytest.param(100, 99, CRASH, S.RUNNING, 10, id="the clock was set back"),
        pytest.param(100, 110, CRASH, S.RUNNING, 0, id="10 s"),
        pytest.param(100, 5000, ended(0), S.RUNNING, 0, id="longer"),
        pytest.param(100, 110, ended(-220, "permanent"), S.RUNNING, 0, id="10 s, until the attempt ends"),
    ],
)
def test_the_fifth_end_pauses_by_the_time_that_the_instance_ran(
    begun: float, now: float, completion: TaskCompletion, was: State, pause: int
) -> None:
    loops = in_a_row(4)
    end(loops, begun, now, completion, was)
    assert loops.hold(KEY, at(now)) == (at(now + pause) if pause else None)
    end(loops, now, now + 1)
    assert (loops.hold(KEY, at(now + 1)) is not None) == (pause > 0), "after a longer run it starts from none"


@pytest.mark.parametrize("code", [-210, -220, -230, -240])
def test_a_short_run_that_the_controller_ends_says_nothing(code: int) -> None:
    loops = in_a_row(4)
    for _ in range(10):
        end(loops, 100, 101, ended(code, "permanent"))
    assert loops.hold(KEY, at(101)) is None
    end(loops, 100, 101)
    assert loops.hold(KEY, at(101)) == at(111)


def test_a_task_that_waits_is_named_until_it_does_not() -> None:
    loops = in_a_row(6)
    assert (loops.why(KEY), loops.describe()) == ("", None), "it has not asked for a Pod"
    assert loops.hold(KEY, at(2)) == at(21)
    assert loops.why(KEY) == "paused for 20 s: its Pod ended within 10 s of its start 6 times in a row"
    text = (
        "worker-0 ended within 10 s of their start five times in a row or more: their Pods are created again after "
        "pauses of up to 20 s, until crashLoopPause of the controller is false or the template changes"
    )
    assert loops.describe() == ("TasksPaused", text)
    assert loops.hold(KEY, at(21)) is None
    assert (loops.why(KEY), loops.describe()) == ("", None)


@pytest.mark.parametrize("was", [S.CREATION_PENDING, S.DELETION_PENDING, S.DELETING])
def test_what_is_no_end_of_an_instance_does_not_count(was: State) -> None:
    loops = in_a_row(4)
    loops.note(KEY, task(was, CRASH, since=1), task(S.ATTEMPT_COMPLETED, CRASH, since=1), moment(1))
    assert loops.hold(KEY, at(1)) is None


def test_a_task_that_ends_without_a_pod_waits_no_more() -> None:
    loops = in_a_row(5)
    loops.hold(KEY, at(1))
    loops.note(KEY, task(), task(S.ATTEMPT_COMPLETED, ended(-230, "permanent")), moment(2))
    assert loops.describe() is None


@pytest.mark.parametrize(
    ("number", "names"), [(2, "worker-0 and 1 more Task ended"), (13, "worker-0 and 12 more Tasks ended")]
)
def test_of_many_tasks_the_first_is_named(number: int, names: str) -> None:
    loops = CrashLoops()
    for index in reversed(range(number)):
        for _ in range(5):
            loops.note(("worker", index), task(S.RUNNING), task(S.DELETION_PENDING, CRASH), moment(0))
        loops.hold(("worker", index), at(0))
    assert loops.describe()[1].startswith(names)


def pods(template: str, number: int = 1, name: str = "worker") -> object:
    return role(name, number, task=TaskSpec(pod=Raw(template.encode())))


@pytest.mark.parametrize(
    ("after", "waits"),
    [
        pytest.param([pods("{}")], True, id="nothing that concerns it"),
        pytest.param([pods("{}", 5), pods("{}", name="other")], True, id="more Tasks and roles"),
        pytest.param([pods('{"a":1}')], False, id="another template"),
        pytest.param([pods("{}", 0)], False, id="scaled down"),
        pytest.param([pods("{}", name="other")], False, id="its role is removed"),
        pytest.param([], False, id="all roles are removed"),
    ],
)
def test_a_changed_template_starts_from_none(after: list[object], waits: bool) -> None:
    loops = in_a_row(5)
    loops.hold(KEY, at(1))
    assert loops.follow(spec(pods("{}")), spec(*after)) == (set() if waits else {KEY})  # type: ignore[arg-type]
    assert (loops.hold(KEY, at(1)) is not None) is waits
    assert bool(loops.describe()) is waits


# --- in the life of a Framework --------------------------------------------------------------------------------------

SPEC = """
retryPolicy: {{fancyRetryPolicy: false, maxRetryCount: {framework}}}
taskRoles:
- name: bad
  taskNumber: {tasks}
  frameworkAttemptCompletionPolicy: {{minFailedTaskCount: 1, minSucceededTaskCount: -1}}
  task:
    retryPolicy: {{fancyRetryPolicy: false, maxRetryCount: {task}}}
    pod: &pod {{spec: {{containers: [{{name: main}}]}}}}
- name: good
  taskNumber: 1
  task: {{pod: *pod}}
"""


class Life(Manual):
    """A Framework whose Pods of the role `bad` end again and again, and when Pods are created.

    Args:
        task: `maxRetryCount` of its Tasks.
        framework: that of the Framework.
        tasks: how many there are.
        runs: for how many seconds each Pod runs.
        pause: whether crash loops pause.
    """

    def __init__(
        self, *, task: int = 0, framework: int = 0, tasks: int = 1, runs: float = 0, pause: bool = True, code: int = 1
    ) -> None:
        super().__init__(SPEC.format(task=task, framework=framework, tasks=tasks), core_config(crash_loop_pause=pause))
        self.runs, self.code, self.writes = runs, code, 0
        self.created: dict[str, list[float]] = {}
        self.world.plan.ends = {"good-0": ["stay"]}

    def work(self, seconds: int) -> None:
        for _ in range(seconds):
            # What the controller asks for within a second, however often it asks.
            for _ in range(30):
                effects = self.ask()
                for effect in effects:
                    if isinstance(effect, CreatePod):
                        self.created.setdefault(f"{effect.role}-{effect.index}", []).append(self.second_now)
                    self.writes += isinstance(effect, WriteStatus)
                    self.answer_as_the_server(effect)
                self.see()
                if not effects:
                    break
            self._end_pods()
            self.second()

    @property
    def second_now(self) -> float:
        return (self.world.now - at(0)).total_seconds()

    def _end_pods(self) -> None:
        for name, pod in self.world.pods.items():
            if not name.startswith("fw-bad"):
                continue
            created = pod.metadata.creation_timestamp or at(0)
            is_over = (self.world.now - created).total_seconds() >= self.runs
            self.world.plan.ends[name.removeprefix("fw-")] = [self.code if is_over else "stay"]

    def gaps(self, task_key: str = "bad-0") -> list[float]:
        return [later - earlier for earlier, later in pairwise(self.created[task_key])]

    @property
    def condition(self) -> Condition | None:
        return next((one for one in self.world.status.conditions or () if one.type == "CrashLoop"), None)


def assert_paused(gaps: list[float], pauses: list[int]) -> None:
    """The end of a Pod takes some seconds beside the pause, and that of an attempt some more."""
    assert len(gaps) >= len(pauses)
    for gap, pause in zip(gaps, pauses, strict=False):
        assert pause <= gap < max(pause + 5, 11), gaps


@pytest.mark.parametrize("code", [0, 1])
@pytest.mark.parametrize("retries", [{"task": -2}, {"framework": -2}], ids=["a Task", "a Framework"])
def test_a_pod_that_ends_at_once_is_created_later_and_later(retries: dict[str, int], code: int) -> None:
    life = Life(**retries, code=code)
    if "framework" in retries and not code:
        life.world.spec["taskRoles"].pop()  # the attempt succeeds only when all have
    life.work(1400)
    assert_paused(life.gaps(), [*FREE, 10, 20, 40, 80, 160, 300, 300])
    assert len(life.created["bad-0"]) < 15


@pytest.mark.parametrize("retries", [{"task": -2}, {"framework": -2}], ids=["a Task", "a Framework"])
def test_without_the_setting_there_is_no_pause(retries: dict[str, int]) -> None:
    life = Life(**retries, pause=False)
    life.work(150)
    assert_paused(life.gaps(), [0] * 12)
    assert life.condition is None


def test_one_that_runs_longer_starts_from_none() -> None:
    life = Life(task=-2)
    life.work(60)
    life.runs = 11
    life.work(120)
    before = len(life.created["bad-0"])
    life.runs = 0
    life.work(60)
    assert_paused(life.gaps()[before:], [*FREE, 10, 20])
    long = [gap for gap in life.gaps()[:before] if gap >= 11]
    assert_paused(long[-5:], [11] * 5)


def test_limited_retries_are_paused_and_counted_as_ever() -> None:
    life = Life(task=6)
    life.work(100)
    assert_paused(life.gaps(), [*FREE, 10, 20])
    status = life.world.status
    assert (status.state, status.completion and status.completion.code) == (State.COMPLETED, 1)
    assert tasks(life.world)["bad-0"].retry_policy_status.total_retried_count == 6
    assert (life.condition.status, life.condition.reason) == ("False", "NoTaskPaused")


def test_a_changed_template_goes_on_at_once_and_starts_from_none_but_no_other_edit_does() -> None:
    life = Life(task=-2)
    life.work(120)
    before = len(life.created["bad-0"])
    life.world.spec["taskRoles"][1]["task"]["pod"] = {"spec": {"containers": [{"name": "other"}]}}
    life.world.spec["description"] = "x"
    life.world.edited()
    life.work(20)
    assert len(life.created["bad-0"]) == before
    assert life.condition.status == "True"
    now = life.second_now
    life.world.spec["taskRoles"][0]["task"]["pod"] = {"spec": {"containers": [{"name": "corrected"}]}}
    life.world.edited()
    life.work(60)
    assert life.created["bad-0"][before] - now <= 2
    assert_paused(life.gaps()[before:], [*FREE, 10])


def test_its_peers_do_not_pause_while_the_framework_is_retried() -> None:
    life = Life(framework=-2)
    life.work(400)
    attempts = len(life.created["good-0"])
    assert attempts >= len(life.created["bad-0"]) > 8
    waited = [later - earlier for earlier, later in zip(life.created["good-0"], life.created["bad-0"], strict=False)]
    assert max(waited[:5]) < 3
    assert max(waited) > 100, "the one that crashes has paused, and its peer was there at once"
    assert life.condition.message.startswith("bad-0 ended")


def test_the_condition_and_the_gang_name_the_tasks_that_wait_with_no_write_a_second() -> None:
    life = Life(task=-2, tasks=3)
    life.work(120)
    condition = life.condition
    assert (condition.status, condition.reason) == ("True", "TasksPaused")
    assert condition.message.startswith("bad-0 and 2 more Tasks ended within 10 s of their start five times in a row")
    assert {tasks(life.world)[f"bad-{index}"].state for index in range(3)} == {State.CREATION_PENDING}
    assert tasks(life.world)["bad-0"].retry_policy_status.retry_delay_sec is None
    before = life.writes
    life.work(50)
    assert life.writes == before


def test_a_gang_says_that_it_waits_for_a_task_that_pauses() -> None:
    life = Life(task=-2)
    for one in life.world.spec["taskRoles"]:
        barrier = {"name": names.BARRIER_CONTAINER, "image": "x"}
        one["task"]["pod"] = {"spec": {"initContainers": [barrier], "containers": [{"name": "main"}]}}
    life.world.edited()
    life.work(120)
    gang = next(one for one in life.world.status.conditions or () if one.type == "GangReady")
    why = "paused for 80 s: its Pod ended within 10 s of its start 8 times in a row"
    assert (gang.reason, gang.message) == ("NotCreated", f"1/2: bad-0 NotCreated: {why}")


def test_a_paused_task_that_is_scaled_down_is_removed_and_forgotten() -> None:
    life = Life(task=-2, tasks=2)
    life.work(150)
    life.world.spec["taskRoles"][0]["taskNumber"] = 1
    life.world.edited()
    life.work(5)
    assert "bad-1" not in tasks(life.world)
    assert life.condition.message.startswith("bad-0 ended")
    before = len(life.created["bad-1"])
    life.world.spec["taskRoles"][0]["taskNumber"] = 2
    life.world.edited()
    life.work(20)
    assert len(life.created["bad-1"]) >= before + 3


def test_a_framework_that_is_stopped_while_it_pauses_ends_at_once() -> None:
    life = Life(task=-2)
    life.work(150)
    life.world.spec["executionType"] = "Stop"
    life.world.edited()
    life.work(10)
    assert life.world.status.state is State.COMPLETED
    assert life.condition.status == "False"


def test_another_controller_starts_from_none_and_takes_the_condition_back() -> None:
    life = Life(task=-2)
    life.work(150)
    before = len(life.created["bad-0"])
    life.start()
    life.runs = 11
    life.work(3)
    assert len(life.created["bad-0"]) == before + 1
    assert life.condition.status == "False"


def test_who_suspends_and_resumes_a_framework_shortens_no_pause() -> None:
    """At rest it was forgotten, with its runs: 800 Pods in 40 s instead of 140."""
    life = Life(task=-2)
    life.work(60)
    life.world.spec["suspend"] = True
    life.world.edited()
    life.work(6)
    assert life.world.status.state is State.CREATION_PENDING
    assert life.world.config_map is None
    decision = life.decide()
    assert not decision.at_rest
    assert decision.wake_at is not None
    life.work(400)
    assert life.decide().at_rest


# --- attempts that end at once ---------------------------------------------------------------------------------------


class Attempts(Life):
    """A Framework that is retried for ever, and when its attempts have ended."""

    def __init__(self, *, pause: bool = True, tasks: int = 1) -> None:
        super().__init__(framework=-2, runs=10**6, pause=pause, tasks=tasks)
        self.ended: list[float] = []

    def live(self, seconds: int) -> None:
        for _ in range(seconds):
            self.work(1)
            if self.world.stored is None:
                continue
            self.interfere()
            attempts = self.world.status.attempt_status.id + (self.world.status.state is State.ATTEMPT_COMPLETED)
            self.ended += [self.second_now] * (attempts - len(self.ended))

    def interfere(self) -> None: ...

    @property
    def pauses(self) -> list[float]:
        return [later - earlier for earlier, later in pairwise(self.ended)]


class Deleted(Attempts):
    """Somebody deletes its ConfigMap `after` so many seconds of each attempt."""

    def __init__(self, after: int = 0, *, pause: bool = True) -> None:
        super().__init__(pause=pause)
        self.after = after

    def interfere(self) -> None:
        attempt = self.world.status.attempt_status
        runs = self.world.status.state is State.RUNNING
        if runs and (self.world.now - (attempt.run_time or at(0))).total_seconds() >= self.after:
            self.world.delete_config_map()


class Refused(Attempts):
    """The API server refuses its Pods for good."""

    def __init__(self, *, pause: bool = True) -> None:
        super().__init__(pause=pause)
        self.world.plan.refuse["bad-0"] = [422] * 1000


class TooLarge(Attempts):
    """The API server refuses its status, with any Tasks."""

    def __init__(self, *, pause: bool = True) -> None:
        super().__init__(pause=pause, tasks=50)
        self.world.max_status_bytes = 10_000


LATER = [10, 20, 40, 80, 160, 300, 300]


@pytest.mark.parametrize(
    ("life", "pauses"),
    [(Deleted(), [*FREE[:1], *LATER]), (Refused(), LATER[2:]), (TooLarge(), LATER[2:])],
    ids=["others delete its ConfigMap", "its Pods are refused", "its status is refused"],
)
def test_after_attempts_that_end_at_once_the_next_one_begins_later_and_later(life: Attempts, pauses: list[int]) -> None:
    life.live(1400)
    for gap, pause in zip(life.pauses, pauses, strict=False):
        assert pause <= gap < 1.2 * pause + 11, life.pauses
    assert len(pauses) <= len(life.ended) < len(pauses) + 4


@pytest.mark.parametrize(
    "life",
    [Deleted(pause=False), Deleted(after=11), TooLarge(pause=False)],
    ids=["the setting is off", "it ran 11 s", "the setting is off for a status"],
)
def test_attempts_do_not_pause_if(life: Attempts) -> None:
    life.live(200)
    assert max(life.pauses) <= 11 + 7
    assert life.condition is None


def test_a_framework_that_pauses_says_so_and_ends_at_once_when_it_is_stopped() -> None:
    life = Deleted()
    life.live(60)
    assert (life.condition.status, life.condition.reason) == ("True", "AttemptPaused")
    assert life.condition.message == (
        "its attempt has ended soon after its start, or its Pods are refused for good: the next one begins after a "
        "pause of 40 s, until crashLoopPause of the controller is false or a template changes"
    )
    before = life.writes
    life.live(5)
    assert life.writes == before
    life.world.stop()
    life.live(5)
    assert (life.world.status.state, life.condition.reason) == (State.COMPLETED, "NoTaskPaused")


def test_a_framework_that_pauses_goes_on_at_once_when_its_template_changes() -> None:
    life = Refused()
    life.live(60)
    before = len(life.ended)
    life.world.spec["description"] = "x"
    life.world.edited()
    life.live(5)
    assert len(life.ended) == before
    life.world.spec["taskRoles"][0]["task"]["pod"] = {"spec": {"containers": [{"name": "corrected"}]}}
    life.world.plan.refuse.clear()
    life.world.edited()
    life.live(10)
    assert life.world.status.state is State.RUNNING
