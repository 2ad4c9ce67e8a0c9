"""Lives of Frameworks whose gangs restart in their Pods; `ends` are by run of the application, in whatever Pod."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frameworkcontroller.api.states import State
from tests.controller.core.scenarios import STAY, Scenario, all_run, lose_a_pod, scale, tasks, workers

if TYPE_CHECKING:
    from tests.controller.core.world import World

ANNOTATIONS = (
    "barrier.frameworkcontroller.microsoft.com/restart: in-place, "
    "barrier.frameworkcontroller.microsoft.com/restart-limit: '2'"
)
POD = (
    f"pod: {{metadata: {{annotations: {{{ANNOTATIONS}}}}}, spec: {{restartPolicy: Never, "
    "initContainers: [{name: frameworkbarrier, image: x, restartPolicy: Always}], "
    "containers: [{name: main, image: x}]}}"
)
GANG = f"""
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
MIXED = GANG.replace("in-place", "in-place", 1).replace(ANNOTATIONS, "x: y", 1)
OTHER_LIMIT = GANG.replace("'2'", "'3'", 1)


def then_ok(*first: int | str, runs: int = 1) -> dict[str, list[int | str]]:
    """Worker 1 ends so; the others stay for as many runs, and succeed in the next one."""
    others: list[int | str] = [*("stay",) * runs, 0]
    return {"worker-0": others, "worker-1": list(first), "worker-2": others}


def crash_the_next_one(world: World) -> None:
    """As soon as all run after the first crash, another one crashes."""
    if all_run(world) and world.status.attempt_status.gang_epoch == 1 and world.in_place.runs["worker-2"] == 2:
        world.plan.ends["worker-2"] = ["stay", 3, 0]


def is_everybody_in(world: World, epoch: int) -> bool:
    attempt = world.status.attempt_status if world.stored is not None else None
    return attempt is not None and attempt.gang_epoch == epoch and bool(attempt.gang_released)


def up_and_down(world: World) -> None:
    """Three workers become four, then two; each time all start again with the new number."""
    if workers(world) == 3 and is_everybody_in(world, 0) and all_run(world):
        scale(world, 4)
    elif workers(world) == 4 and "worker-3" in tasks(world) and world.in_place.runs["worker-3"] and all_run(world):
        scale(world, 2)
    elif workers(world) == 2 and "worker-2" not in tasks(world) and world.in_place.runs["worker-0"] >= 3:
        world.stop()


def fail_after_a_success(world: World) -> None:
    """Worker 0 succeeds; then worker 1 fails, whose restart would wait for worker 0 in vain."""
    worker = tasks(world).get("worker-0")
    if worker is not None and worker.state is State.COMPLETED and world.in_place.runs["worker-1"] == 1:
        world.plan.ends["worker-1"] = [5, 0]


IN_PLACE = {
    "a rank crashes, and all run again in their Pods": Scenario(
        0, then_ok(1, 0), spec=GANG, tasks_retried={"worker-1": 0, "worker-0": 0, "ps-0": 0}
    ),
    "two ranks crash at once": Scenario(
        0, then_ok(1, 0) | {"worker-2": [7, 0]}, spec=GANG, tasks_retried={"worker-1": 0, "worker-2": 0}, exact=False
    ),
    "one rank after the other": Scenario(
        0,
        {"worker-0": ["stay", "stay", 0], "worker-1": [1, "stay", 0], "worker-2": ["stay", "stay", 0]},
        crash_the_next_one,
        spec=GANG,
        exact=False,
    ),
    "the limit is reached, and the Task is retried": Scenario(
        0, then_ok(1, 1, 1, 0, runs=3), spec=GANG, tasks_retried={"worker-1": 1, "worker-0": 0}, exact=False
    ),
    "a Pod is deleted, and the others wait for the next one": Scenario(
        0, then_ok("stay", 0), lose_a_pod, spec=GANG, tasks_retried={"worker-1": 1, "worker-0": 0}
    ),
    "an exit that is not to restart the gang": Scenario(210, then_ok(210), spec=GANG),
    "a rank fails after another has succeeded": Scenario(
        0,
        {"worker-0": [0], "worker-1": ["stay", 0], "worker-2": ["stay", 0]},
        fail_after_a_success,
        spec=GANG,
        tasks_retried={"worker-1": 1, "worker-0": 0},
        exact=False,
    ),
    "scaled up and down": Scenario(-210, STAY | {"worker-3": ["stay"]}, up_and_down, spec=GANG),
    "only one role asks for it": Scenario(-200, STAY, spec=MIXED),
    "the roles have other limits": Scenario(-200, STAY, spec=OTHER_LIMIT),
}
