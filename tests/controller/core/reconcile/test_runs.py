"""Whole lives of Frameworks, and the same lives cut short at every effect."""

from dataclasses import replace as replaced
from typing import Any

import pytest

from frameworkcontroller.api.states import State
from frameworkcontroller.core.effects import Effect, FindConfigMap, Outcome, WriteStatus
from tests.controller.core.checks import place, tasks_of
from tests.controller.core.driver import Driver
from tests.controller.core.manual import Manual, of_roles
from tests.controller.core.run import Run
from tests.controller.core.scenarios.added import ADDED, IN_TIME
from tests.controller.core.scenarios.groups import IN_GROUPS
from tests.controller.core.scenarios.hangs import HANGS
from tests.controller.core.scenarios.histories import IN_HISTORY
from tests.controller.core.scenarios.in_place import IN_PLACE
from tests.controller.core.scenarios.lives import SCENARIOS, STOPPED, TWO_ROLES, Scenario, all_run, lose_a_pod
from tests.controller.core.scenarios.queues import IN_QUEUES
from tests.controller.core.world import Plan, World, framework_of

ALL = SCENARIOS | STOPPED | ADDED | IN_TIME | IN_PLACE | HANGS | IN_QUEUES | IN_GROUPS | IN_HISTORY
SEEN_LATE = SCENARIOS | ADDED | IN_PLACE | HANGS | IN_QUEUES | IN_GROUPS | IN_HISTORY
WITH_ARCHIVE = SCENARIOS | ADDED | IN_PLACE | IN_QUEUES


def world_of(scenario: Scenario) -> World:
    manifest = framework_of(scenario.spec)
    manifest["metadata"]["labels"] = dict(scenario.labels)
    return World(manifest, scenario.new_plan(), scenario.config)


def run(
    scenario: Scenario, lags: tuple[int, int, int] | None = None, *, abridges: bool = False, cut: bool = False
) -> Run:
    runner = Run(world_of(scenario), scenario.script, lags or scenario.lags)
    runner.world.abridges = abridges
    runner.cuts = {} if cut else None
    runner.to_the_end()
    return runner


def assert_ended(world: World, scenario: Scenario) -> None:
    """It is over as the scenario says, and nothing is left."""
    assert world.exists == scenario.exists
    assert (world.config_map, world.pods, world.running, world.groups.documents) == (None, {}, {}, {})
    assert tuple(sorted(world.retained)) == scenario.retained
    if scenario.code is not None:
        assert world.status.completion.code == scenario.code
    if world.kueue.document is not None:
        assert world.kueue.finished[-1:] == ["Failed" if scenario.code else "Succeeded"]


@pytest.mark.parametrize("scenario", ALL.values(), ids=ALL)
def test_a_life_ends_as_its_policies_say(scenario: Scenario) -> None:
    runner = run(scenario)
    assert_ended(runner.world, scenario)
    assert set(scenario.said) <= set(runner.transitions)
    if scenario.code is None:
        return
    status = runner.world.status
    assert status.state is State.COMPLETED
    assert status.retry_policy_status.total_retried_count == scenario.retried
    tasks = {f"{role}-{index}": task for (role, index), task in tasks_of(status).items()}
    assert all(task.state is State.COMPLETED for task in tasks.values())
    for task_key, retries in scenario.tasks_retried.items():
        assert tasks[task_key].retry_policy_status.total_retried_count == retries


@pytest.mark.parametrize("scenario", ALL.values(), ids=ALL)
def test_a_life_cut_at_any_effect_ends_in_the_same_place(scenario: Scenario) -> None:
    def end(runner: Run) -> dict[str, Any]:
        found = place(runner.world)
        return found if scenario.exact else {key: found[key] for key in ("exists", "state", "code", "left")}

    whole = run(scenario, cut=True)
    expected = end(whole)
    for where, other in whole.others_that_go_on():
        assert end(other) == expected, where


@pytest.mark.parametrize("lags", [(0, 0, 3), (0, 3, 0), (3, 0, 0), (1, 4, 2)], ids=str)
@pytest.mark.parametrize("scenario", SEEN_LATE.values(), ids=SEEN_LATE)
def test_a_life_seen_late_ends_as_its_policies_say(scenario: Scenario, lags: tuple[int, int, int]) -> None:
    assert_ended(run(scenario, lags=lags).world, scenario)


@pytest.mark.parametrize("away", [False, True], ids=["there", "away"])
@pytest.mark.parametrize("scenario", WITH_ARCHIVE.values(), ids=WITH_ARCHIVE)
def test_an_archive_changes_no_end(scenario: Scenario, away: bool) -> None:
    plan, config = scenario.plan | {"away": away}, replaced(scenario.config, history=True)
    kept = run(replaced(scenario, plan=plan, config=config))
    assert_ended(kept.world, scenario)
    assert (kept.times_stale, kept.world.history["SetFinalizers"] <= 2) == (0, True)


ABRIDGED = (
    *("a worker is retried once", "scaled down and up again", "a ConfigMap never shows up"),
    "a rank crashes, and all run again in their Pods",
)


@pytest.mark.parametrize("name", ABRIDGED)
def test_a_life_whose_status_is_abridged_ends_in_the_same_place(name: str) -> None:
    scenario = ALL[name]
    whole, abridged = run(scenario), run(scenario, abridges=True, cut=True)
    for where, other in [("whole", abridged), *abridged.others_that_go_on()]:
        world = other.world
        assert tasks_retried(world) == tasks_retried(whole.world), where
        end, wanted = world.status.completion, whole.world.status.completion
        assert (end and end.code, world.status.state) == (wanted and wanted.code, State.COMPLETED), where


def tasks_retried(world: World) -> dict[tuple[str, int], int]:
    return {key: task.retry_policy_status.total_retried_count for key, task in tasks_of(world.status).items()}


def test_a_pod_that_is_stuck_holds_its_framework_for_ever() -> None:
    """No timeout is given: no second instance of a Task may run, so nothing is done by force."""
    world = World(framework_of(TWO_ROLES), Plan({"worker-1": ["stay"]}, stuck={"worker-1"}))
    with pytest.raises(AssertionError, match="not over after 200 seconds: AttemptRunning"):
        Run(world, script=lose_a_pod, limit=200).to_the_end()
    assert tasks_of(world.status)["worker", 1].state is State.DELETING


def test_pods_that_vanish_with_their_config_map_do_not_end_the_attempt_before_it() -> None:
    """As in Microsoft's controller: who deletes the ConfigMap deletes the attempt, and its Pods with it (-100)."""
    manual = Manual(of_roles(worker=1))
    manual.at_rest()
    assert all_run(manual.world)
    manual.world.config_map = None
    manual.world.pods.clear()
    manual.world.running.clear()
    manual.start()
    asked = manual.ask()
    assert FindConfigMap() in asked
    for effect in asked:
        if effect != FindConfigMap():
            manual.answer_as_the_server(effect)
    for _ in range(8):
        manual.turn()
        manual.second()
    assert manual.world.status.completion is None, "the API server answers slowly about the ConfigMap"
    manual.answer_as_the_server(FindConfigMap())
    manual.at_rest()
    assert manual.world.status.state is State.COMPLETED
    assert manual.world.status.completion.code == -100


class Contested(Run):
    """Before one of its effects, the user changes the spec and a second leader takes it up, as far as a write."""

    def __init__(self, scenario: Scenario, contested_at: int) -> None:
        super().__init__(world_of(scenario), script=scenario.script)
        self.contested_at = contested_at

    def send(self, effect: Effect) -> Outcome:
        if self.effects + 1 == self.contested_at:
            self.world.spec["description"] = "seen by another"
            self.world.edited()
            second_leader = Driver(self.world)
            for one in second_leader.decide().effects:
                if isinstance(one, WriteStatus):
                    second_leader.send(one)
        return super().send(effect)


CONTESTED = (
    *("all workers succeed", "a worker is retried once", "scaled down and up again"),
    *("a rank crashes, and all run again in their Pods", "a Pod is deleted, and the others wait for the next one"),
)


@pytest.mark.parametrize("name", CONTESTED)
def test_of_two_controllers_the_slower_one_starts_again(name: str) -> None:
    """Each of its writes says what it builds upon, so that two histories never mix."""
    scenario = ALL[name]
    whole = run(scenario)
    stale = 0
    for contested_at in range(1, whole.effects + 1):
        contested = Contested(scenario, contested_at)
        contested.to_the_end()
        assert place(contested.world) == place(whole.world), f"a second leader before effect {contested_at}"
        stale += contested.times_stale
    assert stale >= whole.effects / 2


@pytest.mark.parametrize("lags", [(0, 0, 0), (0, 0, 3), (1, 4, 2)], ids=str)
def test_a_gang_runs_again_in_the_same_pods(lags: tuple[int, int, int]) -> None:
    runner = run(IN_PLACE["a rank crashes, and all run again in their Pods"], lags=lags)
    world = runner.world
    attempt = world.status.attempt_status
    assert (attempt.gang_epoch, attempt.gang_restarts) == (1, 1)
    assert {name: len(uids) for name, uids in world.made.items()} == dict.fromkeys(world.made, 1)
    assert dict(world.in_place.runs) == {"ps-0": 2, "worker-0": 2, "worker-1": 2, "worker-2": 2}
    assert (len(runner.said("GangRestarting")), len(runner.said("GangRestarted"))) == (1, 1)


def test_beyond_the_limit_the_exit_code_decides_as_that_of_a_failed_pod() -> None:
    runner = run(IN_PLACE["the limit is reached, and the Task is retried"])
    assert runner.world.status.attempt_status.gang_restarts == 2
    assert runner.said("TaskRetried")
    assert runner.said("GangNotRestarted")[0].startswith(
        "worker-1 has exited, and its attempt ends: exits have restarted the gang 2 times"
    )


def test_two_crashes_that_are_seen_together_make_one_epoch() -> None:
    world = run(IN_PLACE["two ranks crash at once"]).world
    assert world.status.attempt_status.gang_epoch == 1


def test_a_gang_that_does_not_ask_has_no_more_fields_than_before() -> None:
    world = run(SCENARIOS["a barrier gives up and the kubelet restarts it"]).world
    assert world.stored is not None
    for name in (b"gangEpoch", b"gangReleased", b"lastGangRestarts", b'"epoch"', b'"starts"', b"GangReady"):
        assert name not in world.stored
    assert all("epoch" not in roster and "behind" not in roster for roster in world.rosters)


def test_a_queue_costs_few_writes() -> None:
    """Beside Kueue's own: the Workload is made, is ready, and is finished; the status says that it waits."""
    queued, alone = run(IN_QUEUES["it waits for quota"]).world, run(Scenario(0)).world
    assert (queued.kueue.made, queued.kueue.patched) == (1, 2)
    assert queued.history["DeleteCompanion"] == 0
    assert queued.history["WriteStatus"] <= alone.history["WriteStatus"] + 2
