"""Gangs that restart in place: roles that take no part, edited templates, instances that never stay."""

import itertools
from datetime import timedelta

import pytest

from frameworkcontroller.api.states import State
from frameworkcontroller.core.effects import Effect
from frameworkcontroller.core.reconcile.task_pass import TASKS_IN_A_ROW
from tests.controller.core import checks
from tests.controller.core.driver import Driver
from tests.controller.core.manual import Manual
from tests.controller.core.reconcile.test_runs import run
from tests.controller.core.run import Run
from tests.controller.core.scenarios.in_place import (
    ANNOTATIONS,
    GANG,
    IN_PLACE,
    NO_MEMBERS,
    TOOLS_STAY,
    is_open,
    then_ok,
)
from tests.controller.core.scenarios.in_place import POD as GANG_POD
from tests.controller.core.scenarios.lives import POD, STAY, Scenario, Script, all_run, has_lasted, tasks
from tests.controller.core.world import Ends, Plan, World, framework_of

PREPARED = f"""
executionType: Start
retryPolicy: {{fancyRetryPolicy: true, maxRetryCount: 0}}
taskRoles:
- name: prep
  taskNumber: 1
  frameworkAttemptCompletionPolicy: {{minFailedTaskCount: 1, minSucceededTaskCount: -1}}
  task: {{{POD}}}
- name: worker
  taskNumber: 3
  dependsOn: [{{name: prep, status: Complete}}]
  frameworkAttemptCompletionPolicy: {{minFailedTaskCount: 1, minSucceededTaskCount: 3}}
  task: {{retryPolicy: {{fancyRetryPolicy: true, maxRetryCount: 1}}, {GANG_POD}}}
"""


def lived(spec: str, ends: Ends, script: Script | None = None) -> Run:
    """A whole life, however it ends."""
    return run(Scenario(None, ends, script, spec))


def test_a_role_without_a_barrier_that_has_succeeded_does_not_forbid_restarts() -> None:
    life = lived(PREPARED, {"prep-0": [0], **then_ok(1, 0)})
    assert life.said("GangNotRestarted") == []
    assert tasks(life.world)["worker-1"].retry_policy_status.total_retried_count == 0


def test_pods_of_a_template_that_was_edited_do_not_hold_the_gang_up() -> None:
    """The annotation is removed while all run, a Pod is lost, and then a rank crashes."""

    def script(world: World) -> None:
        if world.stored is not None and world.status.attempt_status.gang_epoch == 2 and has_lasted(world, 100):
            assert world.status.attempt_status.gang_released, "the gang never leaves epoch 2's closed gate"
            world.stop()
        if all_run(world) and "edited" not in world.notes:
            world.notes["edited"] = True
            for role in world.spec["taskRoles"]:
                role["task"]["pod"]["metadata"]["annotations"].clear()
                role["task"]["pod"]["spec"]["initContainers"][0].pop("restartPolicy")
            world.edited()
            world.terminate("fw-worker-1")

    ends = STAY | {"worker-0": ["stay", 1, 0], "worker-2": ["stay", "stay", 0]}
    assert lived(GANG, ends, script).world.status.state is State.COMPLETED


SERVED = PREPARED.replace("name: prep, status: Complete", "name: prep, status: Ready").replace(
    f"minSucceededTaskCount: -1}}\n  task: {{{POD}}}", f"minSucceededTaskCount: -1}}\n  task: {{{GANG_POD}}}", 1
)


def test_roles_that_restart_together_must_begin_together() -> None:
    """Otherwise those that run would be restarted as soon as the others begin."""
    assert SERVED.count("restart-limit") == 2
    life = lived(SERVED, {})
    end = tasks(life.world)["prep-0"].completion
    assert end.code == -200
    assert "must begin together, but their dependsOn differ (prep: nothing; worker: prep)" in end.diagnostics
    assert "must begin together" in life.said("RestartRefused")[0]


def test_an_instance_that_never_stays_while_its_gang_waits_ends_its_task() -> None:
    """A barrier that is killed while it waits starts again at once, and no limit counts that."""

    def script(world: World) -> None:
        gate = world.stored is not None and world.status.attempt_status.gang_epoch == 1
        if gate and not world.status.attempt_status.gang_released and tasks(world)["worker-1"].completion is None:
            world.in_place.crash_barrier("fw-worker-1")

    life = lived(GANG, STAY | {"worker-1": [1]}, script)
    text = "worker-1 has exited, and its attempt ends: it has started 10 times more while its gang waited"
    assert text in life.said("GangNotRestarted")
    assert life.world.status.state is State.COMPLETED


def test_what_started_in_an_attempt_before_is_not_counted() -> None:
    """After some attempts that had waited in vain the Tasks of the next one ended, which had started once."""
    driver = Driver(World(framework_of(GANG), Plan({name: ["stay"] for name in STAY})))
    driver.go_on(3)
    counted = driver.reconciler._tasks.starts_while_closed
    counted["worker", 0] = 9
    driver.world.spec["executionType"] = "Stop"
    driver.world.edited()
    driver.go_on(20)
    assert not counted


def test_nothing_is_counted_of_tasks_that_have_not_started_again() -> None:
    """Each edit that renamed roles left an entry behind for each of their Tasks, 0.3 MB a second."""
    driver = Driver(World(framework_of(PREPARED), Plan({"prep-0": ["stay"]})))
    driver.go_on(20)
    driver.world.spec["taskRoles"][1]["name"] = "other"
    driver.world.edited()
    driver.go_on(20)
    assert driver.state is State.RUNNING
    assert not driver.reconciler._tasks.starts_while_closed


@pytest.mark.parametrize(
    "name", ["a rank crashes, and all run again in their Pods", "tools without a barrier are scaled"]
)
def test_the_seconds_until_all_applications_run_are_measured(name: str) -> None:
    assert {"restart-open", "restart-running"} <= run(IN_PLACE[name]).seconds.keys()


def test_a_role_without_a_barrier_that_begins_late_leaves_the_gate_open() -> None:
    life = run(IN_PLACE["tools without a barrier begin late"])
    complete = [one["complete"] for one in life.world.rosters]
    assert complete == sorted(complete), "a roster of a gang that runs is not complete any more"
    assert life.world.rosters[-1]["total"] == 6
    assert (life.gang_ready, life.said("GangRestarting"), life.said("GangWaiting")) == ([], [], [])


def test_a_gang_restarts_without_a_role_that_has_no_barrier_and_names_only_its_members() -> None:
    life = run(IN_PLACE["a tool without a barrier finds no node, and a rank crashes"])
    rosters = life.world.rosters
    assert {(one["epoch"], one["complete"]) for one in rosters} >= {(0, True), (1, False), (1, True)}
    again = [one for one in rosters if one["epoch"] == 1]
    assert {one["total"] for one in again if not one["complete"]} == {4}
    assert not any(entry["task"].startswith("tool") for one in again for entry in one["waitingFor"])
    assert again[-1]["total"] == 4 + len(next(one["tasks"] for one in again[-1]["taskRoles"] if one["name"] == "tool"))
    assert life.gang_ready[-1] == ("True", "AllTasksReady", "4/4")
    assert not [message for *_, message in life.gang_ready if "tool" in message]
    assert life.said("GangRestarting") == [
        "Epoch 1: worker-1 exited with 1: exit 1; the gang restarts in its Pods (1 of 2 by exits)"
    ]


def test_a_gang_whose_members_have_no_tasks_costs_no_writes() -> None:
    """Nothing happens to it once it has come as far as it can."""
    driver = Driver(World(framework_of(NO_MEMBERS), Plan(TOOLS_STAY)))
    driver.go_on(60)
    before = driver.world.history["WriteStatus"]
    driver.go_on(600)
    assert (driver.world.history["WriteStatus"], driver.world.status.ready) == (before, "2/2")


def writes_while_others_end(spec: str) -> int:
    """So many status writes, while one after the other of 50 Tasks ends that the workers wait for."""
    world = World(framework_of(spec.replace("taskNumber: 1", "taskNumber: 50")), Plan(STAY))
    driver = Driver(world)

    def act() -> None:
        driver.caches.relist()
        driver.touch_pods(*world.pods)
        driver.turn()

    while world.stored is None or sum(one.state is State.RUNNING for one in tasks(world).values()) < 50:
        act()
        world.tick()
    before = world.history["WriteStatus"]
    for name in list(world.pods):
        world.live(name)
        world.now += timedelta(milliseconds=10)
        act()
    return world.history["WriteStatus"] - before


def test_a_gang_whose_members_wait_for_others_writes_as_seldom_as_any_other() -> None:
    """What ends in half a second is written together, also before its gate has ever opened."""
    assert writes_while_others_end(PREPARED) <= writes_while_others_end(PREPARED.replace(ANNOTATIONS, "x: y")) <= 5


def test_a_gang_whose_members_wait_for_others_is_as_old_as_its_members() -> None:
    """Otherwise an Event and the metrics say that it was late when it begins."""

    def script(world: World) -> None:
        prep = tasks(world).get("prep-0")
        if prep is not None and prep.state is State.RUNNING and has_lasted(world, 60):
            world.plan.ends["prep-0"] = [0]
        if world.in_place.runs["worker-0"]:
            world.stop()

    life = lived(PREPARED, STAY | {"prep-0": ["stay"]}, script)
    assert life.said("GangWaiting") == []
    assert life.seconds["open"] < 30
    assert life.seconds["released"] < 30


def test_a_template_that_makes_no_pod_any_more_restarts_nobody() -> None:
    """The Pods that run have a barrier, whatever the template of the next ones has."""

    def script(world: World) -> None:
        if not world.notes and all_run(world) and is_open(world, 0, 4):
            world.notes["edited"] = True
            world.spec["taskRoles"][0]["task"]["pod"]["spec"].pop("initContainers")
            world.spec["taskRoles"][1]["task"]["pod"]["spec"]["containers"][0]["env"] = "x"
            world.edited()
        elif world.notes:
            assert world.status.attempt_status.gang_epoch == 0
            if has_lasted(world, 30):
                world.stop()

    lived(GANG, STAY, script)


def test_a_pod_that_leaves_between_two_turns_of_a_pass_ends_nothing_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its exit, that no restart follows, was seen in an earlier turn: the pass ended with an AssertionError."""
    for history in ("history", "beginnings"):
        monkeypatch.setattr(checks, history, lambda *_: None)
    number = 2 * TASKS_IN_A_ROW
    wide, gone = GANG.replace("taskNumber: 3", f"taskNumber: {number}"), set[str]()
    wide = wide.replace("minFailedTaskCount: 1", "minFailedTaskCount: -1")
    manual = Manual(wide.replace("minSucceededTaskCount: 3", "minSucceededTaskCount: -1"))
    stays = {f"worker-{index}": ["stay"] * 9 for index in range(1, number)}
    manual.world.plan.ends = {"ps-0": ["stay"] * 9, "worker-0": [1] * 4} | stays

    def decide() -> list[Effect]:
        manual.touch_pods(*list(manual.world.pods))
        steps = manual.steps()
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return end.value.effects  # type: ignore[no-any-return]
            if manual.reconciler._tasks._ends and manual.world.status.attempt_status.gang_restarts == 2:
                gone.update(name for name in ["fw-worker-0"] if manual.caches._pods[0].pop(name, None))

    for _ in range(60):
        for effects in itertools.islice(iter(decide, []), 10):
            for effect in effects:
                manual.answer(effect, manual.send(effect))
        manual.second()
    assert gone
