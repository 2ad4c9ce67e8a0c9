"""Whole lives of Frameworks, and the same lives cut short at every effect."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from frameworkcontroller.api.states import State

from .world import Plan, Run, World, framework_of, place

if TYPE_CHECKING:
    from collections.abc import Callable

    from frameworkcontroller.api.types import TaskStatus

POD = "pod: {spec: {containers: [{name: main, image: x}]}}"
TWO_ROLES = f"""
executionType: Start
retryPolicy: {{fancyRetryPolicy: true, maxRetryCount: 1}}
taskRoles:
- name: ps
  taskNumber: 1
  frameworkAttemptCompletionPolicy: {{minFailedTaskCount: 1, minSucceededTaskCount: -1}}
  task: {{retryPolicy: {{fancyRetryPolicy: false, maxRetryCount: 0}}, {POD}}}
- name: worker
  taskNumber: 3
  frameworkAttemptCompletionPolicy: {{minFailedTaskCount: 1, minSucceededTaskCount: 3}}
  task: {{retryPolicy: {{fancyRetryPolicy: true, maxRetryCount: 1}}, {POD}}}
"""


@dataclass(frozen=True)
class Scenario:
    """A Framework, what its Pods do, and who interferes when."""

    plan: dict[str, list[int | str]]
    code: int
    retries: int = 0
    spec: str = TWO_ROLES
    script: Callable[[World, int], None] | None = None


# Scripts look at what the API server shows, never at the clock, so that a cut run meets the same interference.


def tasks(world: World) -> dict[str, TaskStatus]:
    if world.stored is None:
        return {}
    return {
        f"{role.name}-{task.index}": task
        for role in world.status.attempt_status.task_role_statuses or ()
        for task in role.task_statuses
    }


def all_run(world: World) -> bool:
    return bool(shown := tasks(world)) and all(task.state is State.RUNNING for task in shown.values())


def lose_a_pod(world: World, _second: int) -> None:
    worker = tasks(world).get("worker-1")
    if worker and worker.state is State.RUNNING and worker.attempt_status.id == 0:
        world.delete_pod_externally("worker-1")


def lose_the_config_map(world: World, _second: int) -> None:
    if all_run(world) and world.status.attempt_status.id == 0 and world.config_map is not None:
        world.delete_config_map_externally()


def stop(world: World, _second: int) -> None:
    if all_run(world):
        world.manifest["spec"]["executionType"] = "Stop"


def scale_down_then_up(world: World, _second: int) -> None:
    worker = world.manifest["spec"]["taskRoles"][1]
    shown = tasks(world)
    if worker["taskNumber"] == 3 and all_run(world):
        worker["taskNumber"] = 1
    elif worker["taskNumber"] == 1 and shown["worker-1"].deletion_pending:
        worker["taskNumber"] = 2
    elif worker["taskNumber"] == 2 and "worker-2" not in shown and all_run(world):
        world.manifest["spec"]["executionType"] = "Stop"


def drop_a_role(world: World, _second: int) -> None:
    roles = world.manifest["spec"]["taskRoles"]
    if len(roles) == 2 and all_run(world):
        del roles[0]
    elif len(roles) == 1 and "ps-0" not in tasks(world):
        world.manifest["spec"]["executionType"] = "Stop"


STAY: dict[str, list[int | str]] = {slot: ["stay"] for slot in ("ps-0", "worker-0", "worker-1", "worker-2")}

SCENARIOS = {
    "all workers succeed": Scenario({"ps-0": ["stay"]}, 0),
    "a worker is retried once": Scenario({"ps-0": ["stay"], "worker-1": [1, 0]}, 0),
    "a worker fails for good": Scenario({"ps-0": ["stay"], "worker-2": [7, 8]}, 8, retries=1),
    "a permanent failure is not retried": Scenario({"worker-0": [210], "ps-0": ["stay"]}, 210),
    "a conflict backs off and is retried": Scenario({"ps-0": [201, 0], "worker-0": ["stay", 0]}, 0, retries=1),
    "a Pod is deleted by others": Scenario({"ps-0": ["stay"], "worker-1": ["stay", 0]}, 0, script=lose_a_pod),
    "the ConfigMap is deleted by others": Scenario(
        {slot: ["stay", 0] for slot in STAY}, 0, retries=1, script=lose_the_config_map
    ),
    "the user stops it": Scenario(STAY, -210, script=stop),
    "scaled down and up again": Scenario(STAY, -210, script=scale_down_then_up),
    "a role is deleted": Scenario(STAY, -210, script=drop_a_role),
}


def run(scenario: Scenario, cuts: frozenset[int] = frozenset()) -> tuple[World, Run]:
    # A Framework retry draws a delay of up to 900 s only for a conflict; then seconds are many.
    world = World(framework_of(scenario.spec), Plan(dict(scenario.plan)))
    runner = Run(world, cuts, scenario.script, limit=1000)
    runner.to_the_end()
    return world, runner


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)
def test_a_life_ends_as_its_policies_say(scenario: Scenario) -> None:
    world, _ = run(scenario)
    status = world.status
    assert status.state is State.COMPLETED
    assert status.completion is not None
    assert status.completion.code == scenario.code
    assert status.retry_policy_status.total_retried_count >= scenario.retries
    assert world.config_map is None
    assert world.pods == {}


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)
def test_a_life_cut_at_any_effect_ends_in_the_same_place(scenario: Scenario) -> None:
    whole, runner = run(scenario)
    expected = place(whole.status)
    assert runner.effects > 10
    for cut in range(1, runner.effects + 1):
        for sign in (1, -1):
            world, _ = run(scenario, frozenset({cut * sign}))
            assert place(world.status) == expected, f"cut {'before' if sign > 0 else 'after'} effect {cut}"
            assert world.pods == {}
