"""Lives of Frameworks that use the fields that this project has added to the spec."""

from frameworkcontroller.api.states import State
from tests.controller.core.scenarios.lives import (
    CONFLICT,
    PERMANENT,
    POD,
    SIDECAR,
    STAY,
    THEN_OK,
    TWO_ROLES,
    Scenario,
    all_run,
    attempt,
    first_runs,
    scale,
    tasks,
    two_are_enough,
    when,
    workers,
)
from tests.controller.core.world import World


def with_fields(*lines: str) -> str:
    return "\n".join([*lines, TWO_ROLES])


def give_up(world: World) -> None:
    """The user sets a deadline when all run."""
    if all_run(world) and "activeDeadlineSeconds" not in world.spec:
        world.spec["activeDeadlineSeconds"] = 5
        world.edited()


def need_two_more(world: World) -> None:
    if workers(world) == 3 and all_run(world):
        scale(world, 5)
    elif workers(world) == 5 and all_run(world) and len(tasks(world)) == 6:
        world.plan.ends = {"ps-0": ["stay"]}


def suspend(world: World, *, wanted: bool = True) -> None:
    if world.spec.get("suspend", False) is not wanted:
        world.spec["suspend"] = wanted
        world.edited()
        if not wanted:
            world.plan.ends = {"ps-0": ["stay"]}


def suspend_while_all_run(world: World) -> bool:
    """The user suspends the first attempt when all run; report whether it is over."""
    if first_runs(world):
        suspend(world)
    return attempt(world) == 1


def resume(world: World) -> None:
    suspend(world, wanted=False)


def resume_when_nothing_is_left(world: World) -> None:
    if suspend_while_all_run(world):
        assert world.status.state is not State.CREATION_PENDING or not world.pods
        resume(world)


def resume_while_it_ends(world: World) -> None:
    """The user resumes before the suspended attempt is over: it is retried all the same."""
    if not suspend_while_all_run(world) and world.stored is not None and world.status.completion is not None:
        resume(world)


def resume_at_once(world: World) -> None:
    if world.stored is not None:
        assert attempt(world) == 0
        resume(world)


BY_PERCENT = TWO_ROLES.replace("minSucceededTaskCount: 3", "minSucceededTaskCount: -1, minSucceededTaskPercent: 100")

UNRETRIED = TWO_ROLES.replace("retryPolicy: {fancyRetryPolicy: true, maxRetryCount: 1}\ntaskRoles", "taskRoles")

DEPENDENT = f"""
retryPolicy: {{fancyRetryPolicy: true, maxRetryCount: 0}}
taskRoles:
- name: worker
  taskNumber: 3
  dependsOn: [{{name: ps, status: Ready}}]
  frameworkAttemptCompletionPolicy: {{minFailedTaskCount: 1, minSucceededTaskCount: 3}}
  task: {{{POD}}}
- name: ps
  taskNumber: 1
  task: {{retryPolicy: {{fancyRetryPolicy: true, maxRetryCount: 0}}, {POD}}}
"""
WITHOUT_RETRY = DEPENDENT.replace("task: {retryPolicy: {fancyRetryPolicy: true, maxRetryCount: 0}, ", "task: {")
PIPELINE = f"""
taskRoles:
- {{name: ps, taskNumber: 1, task: {{{POD}}}}}
- {{name: worker, taskNumber: 2, dependsOn: [{{name: ps, status: Complete}}], task: {{{POD}}}}}
- name: last
  taskNumber: 1
  dependsOn: [{{name: ps, status: Ready}}, {{name: worker, status: Complete}}]
  task: {{{POD}}}
"""
TOLERANT = PIPELINE.replace(
    "ps, taskNumber: 1,", "ps, taskNumber: 1, frameworkAttemptCompletionPolicy: {minFailedTaskCount: -1},"
)
UNREADY = {"unready": {"ps-0"}}


def is_begun(world: World, name: str) -> bool:
    if world.stored is None:
        return False
    roles = {role.name: role for role in world.status.attempt_status.task_role_statuses or ()}
    return name in roles and roles[name].dependencies_met is True


def ps_runs(world: World, index: int = 0) -> bool:
    ps = tasks(world).get(f"ps-{index}")
    return ps is not None and ps.state is State.RUNNING


def lose_what_others_waited_for(world: World) -> None:
    """The ps fails when the workers have begun: they go on, and end when it runs again."""
    ps = tasks(world).get("ps-0")
    if is_begun(world, "worker") and ps_runs(world) and ps and ps.attempt_status.id == 0:
        if "fw-ps-0" in world.pods:
            world.terminate("fw-ps-0")
    elif all_run(world) and ps and ps.attempt_status.id == 1:
        world.plan.ends = {"ps-0": ["stay"]}


def scale_both_while_one_waits(world: World) -> None:
    if world.stored is None or is_begun(world, "worker"):
        return
    if workers(world) == 3 and ps_runs(world):
        next(role for role in world.spec["taskRoles"] if role["name"] == "ps")["taskNumber"] = 2
        scale(world, 2, minSucceededTaskCount=2)
    elif workers(world) == 2 and ps_runs(world, 1):
        world.plan.unready.clear()


def wait_no_longer(world: World) -> None:
    """The user takes the dependency away."""
    role = world.spec["taskRoles"][0]
    if "dependsOn" in role and ps_runs(world):
        del role["dependsOn"]
        world.edited()


def wait_after_all(world: World) -> None:
    """A user makes a role wait that has begun, which changes nothing; then a new role waits."""
    roles = world.spec["taskRoles"]
    if all_run(world) and len(roles) == 2:
        roles[1]["dependsOn"] = [{"name": "ps", "status": "Complete"}]
        roles.append({**roles[0], "name": "last", "dependsOn": [{"name": "ps", "status": "Ready"}]})
        world.edited()
    elif all_run(world) and is_begun(world, "last"):
        world.stop()


TOGETHER = SIDECAR.replace(
    "pod: {spec", "pod: {metadata: {annotations: {barrier.frameworkcontroller.microsoft.com/exit: together}}, spec"
)
"""All, the ps as well, end when all want to."""
TOGETHER_TOLERANT = TOGETHER.replace("minFailedTaskCount: 1", "minFailedTaskCount: -1").replace(
    "minSucceededTaskCount: 3", "minSucceededTaskCount: 2"
)


def end_the_last(world: World) -> None:
    """The last one ends when it is seen that the first one wants to."""
    first = tasks(world).get("worker-0")
    if first is not None and first.attempt_status.held is True and not world.notes:
        world.notes["held"] = True
        assert first.state is State.RUNNING
        world.plan.ends["worker-1"] = [0]


ADDED = {
    "who ends first waits for the others": Scenario(
        0,
        {"ps-0": [0], "worker-0": [0], "worker-1": ["stay"], "worker-2": [0]},
        end_the_last,
        spec=TOGETHER,
    ),
    "who ends first waits for one that is retried": Scenario(
        0,
        {"ps-0": [0], "worker-0": [0], "worker-1": [1, 0], "worker-2": [0]},
        spec=TOGETHER,
        tasks_retried={"worker-1": 1},
    ),
    "nobody waits for one that has failed for good": Scenario(
        0, {"ps-0": [0], "worker-0": [0], "worker-1": [210], "worker-2": [0]}, spec=TOGETHER_TOLERANT, exact=False
    ),
    "workers wait until the ps is Ready": Scenario(
        0, script=when(ps_runs, lambda world: world.plan.unready.clear()), spec=DEPENDENT, plan=UNREADY
    ),
    "one role after the other": Scenario(0, {"ps-0": [0]}, spec=PIPELINE),
    "a failure that is tolerated holds nobody up": Scenario(0, {"ps-0": [7]}, spec=TOLERANT),
    "a failure that is not tolerated ends it": Scenario(7, {"ps-0": [7]}, spec=PIPELINE),
    "those who have begun go on": Scenario(
        0, {**STAY, "ps-0": ["stay"]}, lose_what_others_waited_for, spec=DEPENDENT, tasks_retried={"ps-0": 1}
    ),
    "the next attempt waits again": Scenario(
        0, {**THEN_OK, "ps-0": [201, "stay"]}, spec=WITHOUT_RETRY, retried=1, exact=False
    ),
    "both are scaled while one waits": Scenario(
        0, {"ps-1": ["stay"]}, scale_both_while_one_waits, spec=DEPENDENT, plan={"unready": {"ps-0", "ps-1"}}
    ),
    "nobody waits for no Tasks": Scenario(0, spec=PIPELINE.replace("ps, taskNumber: 1", "ps, taskNumber: 0")),
    "the dependency is taken away": Scenario(0, script=wait_no_longer, spec=DEPENDENT, plan=UNREADY),
    "a dependency comes too late": Scenario(-210, {**STAY, "last-0": ["stay"]}, wait_after_all),
    "stopped while one waits": Scenario(-210, script=when(ps_runs, World.stop), spec=DEPENDENT, plan=UNREADY),
    "a dependency on nobody": Scenario(-200, spec=DEPENDENT.replace("name: ps, status", "name: none, status")),
    "a circle": Scenario(
        -200,
        spec=PIPELINE.replace("ps, taskNumber: 1,", "ps, taskNumber: 1, dependsOn: [{name: last, status: Ready}],"),
    ),
    "a Pod of one that others wait for never shows up": Scenario(
        0, spec=DEPENDENT, plan={"hide": {"ps-0": 1}}, tasks_retried={"ps-0": 1}, exact=False
    ),
    "its deadline passes while all run": Scenario(-240, STAY, spec=with_fields("activeDeadlineSeconds: 20")),
    "a deadline is set while all run": Scenario(-240, STAY, give_up),
    "its deadline passes before it is retried": Scenario(
        -240, CONFLICT, spec=with_fields("activeDeadlineSeconds: 30"), retried=1
    ),
    "suspended while all run, and resumed": Scenario(0, STAY, resume_when_nothing_is_left, spec=UNRETRIED, retried=1),
    "suspended, and resumed while it ends": Scenario(0, STAY, resume_while_it_ends, spec=UNRETRIED, retried=1),
    "suspended from the beginning, and resumed": Scenario(0, script=resume_at_once, spec=with_fields("suspend: true")),
    "stopped while it is suspended": Scenario(-210, STAY, when(suspend_while_all_run, World.stop), retried=1),
    "deleted as soon as it is over": Scenario(0, spec=with_fields("ttlSecondsAfterFinished: 0"), exists=False),
    "what fails stays": Scenario(210, PERMANENT, spec=with_fields("retainPods: OnFailure"), retained=("fw-worker-0",)),
    "what has ended stays": Scenario(
        0, spec=with_fields("retainPods: Always"), retained=("fw-worker-0", "fw-worker-1", "fw-worker-2")
    ),
    "what succeeds does not stay": Scenario(0, spec=with_fields("retainPods: OnFailure")),
    "what is retried needs its name": Scenario(
        0, {"worker-1": [1, 0]}, spec=with_fields("retainPods: OnFailure"), tasks_retried={"worker-1": 1}
    ),
    "what stayed makes room for the next attempt of all": Scenario(
        0, {"worker-1": [1, 1, 0]}, spec=with_fields("retainPods: OnFailure"), retried=1
    ),
    "what cannot stay is deleted": Scenario(
        210, PERMANENT, spec=with_fields("retainPods: OnFailure"), plan={"keep_none": {"worker-0"}}
    ),
    "what has stayed goes with its Framework": Scenario(
        210, PERMANENT, spec=with_fields("retainPods: Always", "ttlSecondsAfterFinished: 20"), exists=False
    ),
    "scaled down, and the policy with it": Scenario(0, {"worker-2": ["stay"]}, two_are_enough, spec=BY_PERCENT),
    "scaled up, and the policy with it": Scenario(
        0, STAY | {"worker-3": ["stay"], "worker-4": ["stay"]}, need_two_more, spec=BY_PERCENT
    ),
}

IN_TIME = {
    "it ends before its deadline": Scenario(0, spec=with_fields("activeDeadlineSeconds: 1000")),
    "it fails before its deadline": Scenario(210, PERMANENT, spec=with_fields("activeDeadlineSeconds: 1000")),
}
"""These are not run with late caches: a run in which nothing seems to be left jumps to the next wake-up."""
