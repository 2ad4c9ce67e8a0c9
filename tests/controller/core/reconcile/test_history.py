"""What a Framework does for the archive, request by request: its finalizer, and the logs of Pods that have ended."""

import json
from datetime import timedelta
from typing import Any

import pytest

from frameworkcontroller.api import names
from frameworkcontroller.api.states import State
from frameworkcontroller.core.effects import (
    AskLogs,
    CreateConfigMap,
    Done,
    Failed,
    Missing,
    Outcome,
    SetFinalizers,
    Told,
    WriteStatus,
)
from frameworkcontroller.core.reconcile.decision import Decision, ReconcileContext
from frameworkcontroller.core.reconcile.history_pass import MOST_UIDS, HistoryPass
from frameworkcontroller.core.reconcile.in_flight import InFlight
from frameworkcontroller.core.status.state import FrameworkState
from frameworkcontroller.core.status.writer import NO_WAIT, StatusWriter
from tests.controller.core.driver import Driver
from tests.controller.core.manual import Manual
from tests.controller.core.run import Run
from tests.controller.core.scenarios.histories import KEPT
from tests.controller.core.scenarios.lives import PERMANENT, POD, STAY, TWO_ROLES, all_run, tasks
from tests.controller.core.values import at, core_config, moment, spec
from tests.controller.core.world import Plan, World, framework_of
from tests.support.rows import each

S = State
OURS = names.HISTORY_FINALIZER
RETRIED = f"taskRoles: [{{name: worker, taskNumber: 1, task: {{retryPolicy: {{maxRetryCount: 1}}, {POD}}}}}]"
FAILS: dict[str, list[int | str]] = {"worker-0": [1, "stay"]}


def world_of(text: str = TWO_ROLES, *finalizers: str, history: bool = True, **plan: Any) -> World:
    manifest = framework_of(text)
    manifest["metadata"]["finalizers"] = list(finalizers)
    return World(manifest, Plan(**plan), core_config(history=history))


# --- the finalizer ---------------------------------------------------------------------------------------------------


def test_it_is_set_beside_the_creation_of_the_config_map_and_writes_build_on_it() -> None:
    manual = Manual(config=KEPT)
    created = manual.work_until(CreateConfigMap)
    assert (manual.world.finalizers, manual.world.history["SetFinalizers"]) == ((OURS,), 1)
    version = manual.world.framework.metadata.resource_version
    manual.answer_as_the_server(created)
    assert manual.work_until(WriteStatus).resource_version == version, "it would conflict with our own change"
    assert manual.world.history["SetFinalizers"] == 1


def test_a_framework_that_somebody_has_changed_meanwhile_is_looked_at_again() -> None:
    manual = Manual(config=KEPT)
    effect = manual.work_until(SetFinalizers)
    manual.world.change_finalizers(["a/b"])
    begun, outcome = manual.world.now, manual.send(effect)
    assert outcome == Missing()
    manual.answer(effect, outcome)
    again = manual.work_until(SetFinalizers)
    assert json.loads(again.finalizers) == ["a/b", OURS]
    assert 5 <= (manual.world.now - begun).total_seconds() < 8


def test_one_that_a_webhook_takes_out_again_is_set_ever_more_rarely() -> None:
    """It was set again after each answer."""
    manual = Manual(config=KEPT)
    pauses = list[float]()
    for _ in range(6):
        begun, effect = manual.world.now, manual.work_until(SetFinalizers)
        pauses.append((manual.world.now - begun).total_seconds())
        manual.answer(effect, Done(resource_version=effect.resource_version))
    assert pauses[1:] == [5, 5, 5, 10, 20]


@each("finalizers", [("a/b", OURS, "c/d"), (OURS,)])
def test_without_an_archive_it_is_removed(finalizers: tuple[str, ...]) -> None:
    world = world_of(TWO_ROLES, *finalizers, history=False, ends={"ps-0": ["stay"], "worker-0": [1, 0]})
    Run(world).to_the_end()
    assert world.finalizers == tuple(one for one in finalizers if one != OURS)
    assert (world.status.state, world.history["SetFinalizers"], world.history["AskLogs"]) == (S.COMPLETED, 1, 0)


def test_a_framework_that_was_completed_before_the_archive_came_gets_it_and_is_left_alone_then() -> None:
    world = world_of(history=False, ends={"ps-0": ["stay"]})
    Run(world).to_the_end()
    world.config = KEPT
    driver = Driver(world)
    decision = driver.decide()
    (effect,) = decision.effects
    assert isinstance(effect, SetFinalizers)
    assert not decision.at_rest
    driver.answer(*driver.perform(effect))
    assert not driver.decide().effects
    driver.see()
    decision = driver.decide()
    assert (decision.effects, decision.at_rest, world.finalizers) == ([], True, (OURS,))


def test_the_pods_of_a_framework_that_is_deleted_go_at_once_although_it_stays() -> None:
    driver = Driver(world_of(ends={"ps-0": ["stay"], **STAY}, away=True))
    driver.go_on(8)
    assert all_run(driver.world)
    driver.world.delete_in_background()
    driver.see()
    driver.go_on(5)
    world = driver.world
    assert (world.exists, world.pods, world.config_map, world.status.state) == (True, {}, None, S.COMPLETED)
    assert (world.status.completion.code, world.status.attempt_status.id) == (-210, 0)
    world.now += timedelta(hours=24)
    driver.go_on(3)
    assert not world.exists


# --- logs ------------------------------------------------------------------------------------------------------------


def seconds_until_deleted(world: World, restart_after: int | None) -> float:
    """How long the Pod of a Task that has failed stays, by the time that its status says."""
    driver, since = Driver(world), None
    for _ in range(60):
        driver.go_on(1)
        task = tasks(world).get("worker-0")
        if since is None and task and task.state is S.DELETION_PENDING:
            since = task.transition_time
        passed = -1 if since is None else (world.now - since).total_seconds()
        if restart_after is not None and passed >= restart_after:
            restart_after = driver.start()
        if passed >= 0 and world.history["DeletePod"]:
            return passed
    raise AssertionError(world.history)


@each(
    "plan, restart_after, seconds",
    [
        ({}, None, 1),
        ({"read_seconds": 7}, None, 8),
        ({"read_seconds": 7}, 3, 8),
        ({"read_seconds": 3600}, None, 30),
        ({"away": True}, None, 30),
        ({"away": True}, 12, 30),
    ],
)
def test_a_retry_waits_for_the_log_no_longer_than_half_a_minute(
    plan: dict[str, Any], restart_after: int | None, seconds: int
) -> None:
    world = world_of(RETRIED, ends=dict(FAILS), **plan)
    assert seconds - 1 <= seconds_until_deleted(world, restart_after) <= seconds + 2


def test_what_runs_does_not_wait_and_the_config_map_does() -> None:
    driver = Driver(world_of(ends={"ps-0": ["stay"], **STAY, "worker-0": [1]}, away=True))
    driver.go_on(8)
    assert tasks(driver.world)["worker-0"].state is S.DELETION_PENDING
    driver.world.stop()
    driver.see()
    driver.go_on(5)
    assert (driver.world.history["DeletePod"], driver.world.history["DeleteConfigMap"]) == (3, 0)
    assert list(driver.world.pods) == ["fw-worker-0"]
    driver.go_on(30)
    assert (driver.world.history["DeletePod"], driver.world.history["DeleteConfigMap"]) == (4, 1)


def test_a_retry_of_all_waits_for_one_pod_in_vain() -> None:
    """The first one ends the attempt when it is gone; the second one has ended ten seconds after it."""
    driver = Driver(world_of(ends={"ps-0": ["stay"], **STAY, **PERMANENT}, away=True))
    driver.go_on(8)
    since = tasks(driver.world)["worker-0"].transition_time
    driver.go_on(10)
    driver.world.plan.ends["worker-1"] = [210]
    while not driver.world.history["DeleteConfigMap"]:
        driver.go_on(1)
        assert (driver.world.now - since).total_seconds() <= 33
    assert driver.world.archive.ended.keys() >= {driver.world.made["worker-1"][0]}


@each(
    "outcome, pauses",
    [
        (Told(b'{"kept": []}'), [0.1] * 5),
        (Told(b'{"kept": ["of somebody else"]}'), [0.1] * 5),
        (Told(b"<html>"), [0.5, 1, 2, 4, 5]),
        (Told(None), [0.5, 1, 2, 4, 5]),
        (Failed("nobody listens", retry_after_seconds=600), [0.5, 1, 2, 4, 5]),
        (Missing(), [0.5, 1, 2, 4, 5]),
    ],
)
def test_how_soon_the_archive_is_asked_again(outcome: Outcome, pauses: list[float]) -> None:
    manual = Manual(RETRIED, KEPT)
    manual.world.plan.ends = dict(FAILS)
    assert manual.waits(manual.work_until(AskLogs), outcome) == pytest.approx(pauses)


def test_of_many_pods_each_is_asked_for_in_its_turn() -> None:
    world, state, in_flight = world_of(), FrameworkState("fw"), InFlight(lambda: 0.5)
    made = HistoryPass(KEPT, state, in_flight, StatusWriter(world.framework))
    uids = [f"{number:04}" for number in range(1, 2 * MOST_UIDS + 201)]
    state.sightings.awaited = {uid: (("worker", int(uid)), at(30)) for uid in uids}

    def asked(seconds: float) -> list[str]:
        ctx = ReconcileContext(
            moment(seconds), Driver(world).caches, world.framework, spec(), in_flight, Decision(), NO_WAIT
        )
        made._ask(ctx)
        return [uid for effect in ctx.decision.effects if isinstance(effect, AskLogs) for uid in effect.uids]

    def answer(seconds: float, wanted: list[str], *kept: str) -> None:
        in_flight.finish(("logs",))
        made.apply_outcome(AskLogs(tuple(wanted)), Told(json.dumps({"kept": kept}).encode()), moment(seconds))

    first = asked(0)
    assert first == uids[:MOST_UIDS]
    answer(1, first, "0003", "9999")
    assert (state.sightings.kept, state.dirty.take_dirty(at(1))) == ({"0003"}, [("worker", 3)])
    second = asked(2)
    assert second == uids[MOST_UIDS : 2 * MOST_UIDS]
    assert asked(2) == [], "one request at a time"
    answer(3, second)
    assert asked(4) == sorted(uids[2 * MOST_UIDS :] + [uid for uid in uids[:301] if uid != "0003"])
    answer(5, [])
    assert (asked(30), state.sightings.awaited) == ([], {})
