"""Lives of Frameworks whose gangs restart in their Pods; `ends` are by run of the application, in whatever Pod.

A Task without a barrier does not restart with its gang: its `ends` are by retry, as everywhere else.
"""

from typing import Any

from frameworkcontroller.api.states import State
from tests.controller.core.scenarios.lives import POD as ANY_POD
from tests.controller.core.scenarios.lives import STAY, TWO_ROLES, Scenario, all_run, lose_a_pod, scale, tasks, workers
from tests.controller.core.world import Ends, World

ANNOTATIONS = (
    "barrier.frameworkcontroller.microsoft.com/restart: in-place, "
    "barrier.frameworkcontroller.microsoft.com/restart-limit: '2'"
)
POD = (
    f"pod: {{metadata: {{annotations: {{{ANNOTATIONS}}}}}, spec: {{restartPolicy: Never, "
    "initContainers: [{name: frameworkbarrier, image: x, restartPolicy: Always}], "
    "containers: [{name: main, image: x}]}}"
)
GANG = TWO_ROLES.replace(ANY_POD, POD)
MIXED = GANG.replace("in-place", "in-place", 1).replace(ANNOTATIONS, "x: y", 1)
TOOLS = GANG.replace(
    "- name: worker",
    "- name: tool\n  taskNumber: 2\n"
    f"  task: {{retryPolicy: {{fancyRetryPolicy: true, maxRetryCount: 1}}, {ANY_POD}}}\n- name: worker",
)
"""Role `tool` has no barrier, so it takes no part in restarts."""
LATE_TOOLS = TOOLS.replace("taskNumber: 2", "taskNumber: 2\n  dependsOn: [{name: worker, status: Ready}]")
NO_MEMBERS = TOOLS.replace("taskNumber: 1", "taskNumber: 0").replace("taskNumber: 3", "taskNumber: 0")
OTHER_LIMIT = GANG.replace("'2'", "'3'", 1)


TOOLS_STAY: Ends = {f"tool-{index}": ["stay"] for index in range(3)}


def then_ok(*first: int | str, runs: int = 1) -> Ends:
    """Worker 1 ends so; the others stay for as many runs, and succeed in the next one."""
    others: list[int | str] = [*("stay",) * runs, 0]
    return {"worker-0": others, "worker-1": list(first), "worker-2": others}


def crash_the_next_one(world: World) -> None:
    """As soon as all run after the first crash, another one crashes."""
    if all_run(world) and world.status.attempt_status.gang_epoch == 1 and world.in_place.runs["worker-2"] == 2:
        world.plan.ends["worker-2"] = ["stay", 3, 0]


def up_and_down(world: World) -> None:
    """Three workers become four, then two; each time all start again with the new number."""
    if workers(world) == 3 and is_open(world, 0, 4):
        scale(world, 4)
    elif workers(world) == 4 and "worker-3" in tasks(world) and world.in_place.runs["worker-3"] and all_run(world):
        scale(world, 2)
    elif workers(world) == 2 and "worker-2" not in tasks(world) and world.in_place.runs["worker-0"] >= 3:
        world.stop()


def fail_after_a_success(world: World, end: int | str = 5) -> None:
    """Worker 0 succeeds; then worker 1 fails, whose restart would wait for worker 0 in vain."""
    worker = tasks(world).get("worker-0")
    if worker is not None and worker.state is State.COMPLETED and world.in_place.runs["worker-1"] == 1:
        world.plan.ends["worker-1"] = [end, 0]


def is_open(world: World, epoch: int, members: int) -> bool:
    """Whether the gate of this epoch has opened for so many Tasks, which then run."""
    if world.stored is None:
        return False
    attempt = world.status.attempt_status
    ready = all(task_key.startswith("tool") or task.state is State.RUNNING for task_key, task in tasks(world).items())
    return (attempt.gang_epoch, attempt.gang_released) == (epoch, members) and ready


def tools_begin_late(world: World) -> None:
    """They wait until the workers are Ready, and nobody restarts when they begin."""
    if world.stored is None:
        return
    assert world.status.attempt_status.gang_epoch == 0
    if "tool" in {role["name"] for role in listed(world) if len(role["tasks"]) == 2} and all_run(world):
        world.stop()


def listed(world: World) -> list[Any]:
    """The roles of the newest roster, none if that is not complete."""
    return [] if world.roster is None else world.roster.get("taskRoles", [])


def lose_a_tool_and_a_rank(world: World) -> None:
    """A tool is lost, and no node is found for its next Pod; then a rank crashes. All but the tool run again."""
    persisted = tasks(world)
    tool = persisted.get("tool-0")
    if tool is None:
        return
    if tool.attempt_status.id == 0 and tool.state is State.RUNNING and all_run(world):
        world.plan.no_node["tool-0"] = 10**6
        if "fw-tool-0" in world.pods:
            world.terminate("fw-tool-0")
    elif tool.attempt_status.id == 1 and is_open(world, 0, 4) and world.in_place.runs["worker-1"] == 1:
        world.plan.ends["worker-1"] = [1, "stay"]
    elif is_open(world, 1, 4) and world.in_place.runs["worker-1"] == 2:
        assert not tool.attempt_status.pod_ip
        if set(world.in_place.runs.values()) == {2}:
            world.stop()


def scale_tools_then_workers(world: World) -> None:
    """Only another number of workers makes an epoch."""
    if world.stored is None:
        return
    roles = {role["name"]: role for role in world.spec["taskRoles"]}
    number, there = roles["tool"]["taskNumber"], sum(task_key.startswith("tool") for task_key in tasks(world))
    if workers(world) == 4:
        if is_open(world, 1, 5) and world.in_place.runs["worker-3"]:
            world.stop()
        return
    assert world.status.attempt_status.gang_epoch == 0
    if number == there and all_run(world) and is_open(world, 0, 4):
        if number == 0 and world.notes.get("up"):
            scale(world, 4)
            return
        world.notes["up"] = world.notes.get("up") or number == 3
        roles["tool"]["taskNumber"] = {2: 3, 3: 1, 1: 0}[number]
        world.edited()


def members_come_late(world: World) -> None:
    """The gang has Tasks without a barrier only; then workers come, and go again."""
    if world.stored is None:
        return
    attempt = world.status.attempt_status
    if not world.notes and all_run(world):
        assert (attempt.gang_epoch, attempt.gang_released) == (0, 0)
        world.notes["come"] = True
        scale(world, 3)
    elif workers(world) == 3 and is_open(world, 0, 3) and world.in_place.runs["worker-0"]:
        scale(world, 0)
    elif workers(world) == 0 and world.notes and "worker-0" not in tasks(world):
        assert (attempt.gang_epoch, attempt.gang_released) == (1, 0)
        world.stop()


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
    "tools without a barrier begin late": Scenario(-210, STAY | TOOLS_STAY, tools_begin_late, spec=LATE_TOOLS),
    "a tool without a barrier finds no node, and a rank crashes": Scenario(
        -210,
        STAY | TOOLS_STAY,
        lose_a_tool_and_a_rank,
        spec=TOOLS,
        tasks_retried={"tool-0": 1, "tool-1": 0, "worker-0": 0, "worker-1": 0, "worker-2": 0},
    ),
    "tools without a barrier are scaled": Scenario(-210, STAY | TOOLS_STAY, scale_tools_then_workers, spec=TOOLS),
    "the members come after the tools, and go": Scenario(-210, STAY | TOOLS_STAY, members_come_late, spec=NO_MEMBERS),
    "only one role asks for it": Scenario(-200, STAY, spec=MIXED),
    "the roles have other limits": Scenario(-200, STAY, spec=OTHER_LIMIT),
}
