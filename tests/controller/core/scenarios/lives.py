"""Lives of Frameworks: what their Pods do, what becomes of requests, who interferes when, and how it ends."""

import copy
import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from frameworkcontroller.api.states import COMPLETING, State
from frameworkcontroller.api.status import TaskStatus
from frameworkcontroller.core.reconcile.config import CoreConfig
from tests.controller.core.checks import tasks_of
from tests.controller.core.values import core_config
from tests.controller.core.world import CONFIG_MAP, Ends, Plan, World

Script = Callable[[World], None]

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
WITH_BARRIER = TWO_ROLES.replace(
    "pod: {", "pod: {metadata: {labels: {frameworkcontroller.microsoft.com/barrier: enabled}}, "
)
RESTARTED = TWO_ROLES.replace(
    "spec: {containers",
    "spec: {restartPolicy: OnFailure, initContainers: [{name: frameworkbarrier, image: x}], containers",
)
SIDECAR = RESTARTED.replace("{name: frameworkbarrier,", "{name: frameworkbarrier, restartPolicy: Always,")
WITH_TIMEOUT = TWO_ROLES.replace("maxRetryCount: 1}, pod", "maxRetryCount: 1}, podGracefulDeletionTimeoutSec: 10, pod")
ZERO_TASKS = "{executionType: Start, taskRoles: []}"
ZERO_WORKERS = f"""
executionType: Start
taskRoles:
- {{name: none, taskNumber: 0, task: {{{POD}}}}}
- {{name: worker, taskNumber: 2, task: {{{POD}}}}}
"""
BAD_TEMPLATE = "{taskRoles: [{name: worker, taskNumber: 2, task: {pod: {spec: {containers: [{env: x}]}}}}]}"


@dataclass(frozen=True)
class Scenario:
    """One life."""

    code: int | None
    """How the last attempt ends, None if the Framework is gone before."""
    ends: Ends = field(default_factory=dict)
    script: Script | None = None
    spec: str = TWO_ROLES
    retried: int = 0
    """Retries of the Framework."""
    tasks_retried: dict[str, int] = field(default_factory=dict)
    plan: dict[str, Any] = field(default_factory=dict)
    config: CoreConfig = field(default_factory=core_config)
    exists: bool = True
    retained: tuple[str, ...] = ()
    """The Pods that stay."""
    lags: tuple[int, int, int] = (0, 0, 0)
    """How many seconds late the caches of Frameworks, ConfigMaps and Pods are."""
    exact: bool = True
    """Whether also a cut run retries exactly as often, Task by Task."""
    labels: dict[str, str] = field(default_factory=dict)
    """Of the Framework."""
    said: tuple[str, ...] = ()
    """Changes of state that must be among those that were reported."""

    def new_plan(self) -> Plan:
        """A plan of its own, which a life uses up."""
        return Plan({"ps-0": ["stay"], **self.ends}, **copy.deepcopy(self.plan))


# --- scripts: they look at the persisted status ----------------------------------------------------------------------


def tasks(world: World) -> dict[str, TaskStatus]:
    if world.stored is None:
        return {}
    return {f"{role}-{index}": task for (role, index), task in tasks_of(world.status).items()}


def all_run(world: World) -> bool:
    persisted = tasks(world)
    return bool(persisted) and all(task.state is State.RUNNING for task in persisted.values())


def attempt(world: World) -> int:
    """The persisted attempt of the Framework; -1 before there is one."""
    return -1 if world.stored is None else world.status.attempt_status.id


def first_runs(world: World) -> bool:
    """Whether all Tasks of the first attempt run."""
    return attempt(world) == 0 and all_run(world)


def when(is_time: Callable[[World], bool], act: Callable[[World], object]) -> Script:
    """A script that does one thing whenever it is time for it."""

    def script(world: World) -> None:
        if is_time(world):
            act(world)

    return script


def has_lasted(world: World, seconds: int) -> bool:
    """Whether so many seconds have passed since this was asked first."""
    since: datetime = world.notes.setdefault("since", world.now)
    return world.now > since + timedelta(seconds=seconds)


def workers(world: World) -> int:
    number: int = next(role["taskNumber"] for role in world.spec["taskRoles"] if role["name"] == "worker")
    return number


def scale(world: World, number: int, **policy: int) -> None:
    role = next(role for role in world.spec["taskRoles"] if role["name"] == "worker")
    role["taskNumber"] = number
    role["frameworkAttemptCompletionPolicy"] |= policy
    world.edited()


def lose_a_pod(world: World) -> None:
    worker = tasks(world).get("worker-1")
    if worker and worker.state is State.RUNNING and worker.attempt_status.id == 0 and "fw-worker-1" in world.pods:
        world.terminate("fw-worker-1")


def tamper_with_the_roster(world: World) -> None:
    """Once it is complete, somebody changes it, three times; then all may end."""
    if all_run(world) and world.roster is not None and not world.tampered and world.notes.get("times", 0) < 3:
        world.notes["times"] = world.notes.get("times", 0) + 1
        world.tamper()
    elif world.notes.get("times") == 3 and not world.tampered and all_run(world):
        world.stop()


def stop_at(state: State) -> Script:
    return when(lambda world: world.stored is not None and world.status.state is state, World.stop)


def stop_task_at(state: State) -> Script:
    def has_come(task: TaskStatus) -> bool:
        # A cut may keep the state from being persisted; then the Framework is stopped later.
        return task.state is state or task.attempt_status.id > 0

    return when(lambda world: any(map(has_come, tasks(world).values())), World.stop)


def scale_down_then_up(world: World) -> None:
    persisted = tasks(world)
    if workers(world) == 3 and all_run(world):
        scale(world, 1)
    elif workers(world) == 1 and persisted["worker-1"].deletion_pending:
        scale(world, 2)
    elif workers(world) == 2 and "worker-2" not in persisted and all_run(world):
        world.stop()


def scale_down_then_up_when_it_is_gone(world: World) -> None:
    persisted = tasks(world)
    if workers(world) == 3 and all_run(world) and not world.notes:
        world.notes["scaled"] = True
        scale(world, 1)
    elif workers(world) == 1 and "worker-1" not in persisted:
        scale(world, 3)
    elif workers(world) == 3 and all_run(world) and len(persisted) == 4:
        world.stop()


def scale_up(world: World) -> None:
    if workers(world) == 3 and all_run(world):
        scale(world, 5, minSucceededTaskCount=5)
    elif workers(world) == 5 and all_run(world) and len(tasks(world)) == 6:
        world.stop()


def two_are_enough(world: World, **policy: int) -> None:
    """Two workers succeed, one never ends: it goes, and the policy may be changed with it."""
    done = [task.state for task_key, task in tasks(world).items() if task_key.startswith("worker")]
    if workers(world) == 3 and done.count(State.COMPLETED) == 2:
        scale(world, 2, **policy)


two_are_enough_by_the_policy = functools.partial(two_are_enough, minSucceededTaskCount=2)


def scale_to_zero_and_back(world: World) -> None:
    persisted = tasks(world)
    if workers(world) == 3 and all_run(world) and not world.notes:
        scale(world, 0)
    elif workers(world) == 0 and "worker-0" in persisted and persisted["worker-0"].state in COMPLETING:
        world.notes["back"] = True
        scale(world, 3)
    elif world.notes and all_run(world) and not any(task.deletion_pending for task in persisted.values()):
        world.stop()


def drop_a_role(world: World) -> None:
    roles = world.spec["taskRoles"]
    if len(roles) == 2 and all_run(world):
        del roles[0]
        world.edited()
    elif len(roles) == 1 and "ps-0" not in tasks(world):
        world.stop()


def drop_a_role_and_take_it_back(world: World) -> None:
    roles, ps = world.spec["taskRoles"], tasks(world).get("ps-0")
    if len(roles) == 2 and ps and all_run(world) and not world.notes:
        world.notes |= {"role": roles.pop(0), "uid": ps.instance_uid}
        world.edited()
    elif len(roles) == 1 and ps and ps.deletion_pending:
        roles.insert(0, world.notes["role"])
        world.edited()
    elif world.notes and all_run(world) and ps and ps.instance_uid != world.notes["uid"]:
        world.stop()


def replace_a_role(world: World) -> None:
    roles, persisted = world.spec["taskRoles"], tasks(world)
    if roles[0]["name"] == "ps" and all_run(world):
        roles[0]["name"] = "chief"
        world.edited()
    elif roles[0]["name"] == "chief" and "ps-0" not in persisted and all_run(world):
        world.stop()


def force_a_stuck_pod(world: World) -> None:
    """The user sets a timeout for the deletion."""
    pod = world.pods.get("fw-worker-1")
    role = world.spec["taskRoles"][1]["task"]
    if pod and pod.metadata.deletion_timestamp and not role.get("podGracefulDeletionTimeoutSec"):
        role["podGracefulDeletionTimeoutSec"] = 20
        world.edited()
    else:
        lose_a_pod(world)


STAY: Ends = {task_key: ["stay"] for task_key in ("worker-0", "worker-1", "worker-2")}
THEN_OK: Ends = {task_key: ["stay", 0] for task_key in ("worker-0", "worker-1", "worker-2")}
LOST: Ends = {"worker-1": ["stay", 0]}
PERMANENT: Ends = {"worker-0": [210]}
CONFLICT: Ends = {"ps-0": [201, "stay"], "worker-0": ["stay", 0], "worker-1": ["stay", 0]}

SCENARIOS = {
    "all workers succeed": Scenario(0),
    "all Tasks complete": Scenario(0, spec=ZERO_WORKERS),
    "a worker is retried once": Scenario(0, {"worker-1": [1, 0]}, tasks_retried={"worker-1": 1}),
    "a worker fails for good": Scenario(8, {"worker-2": [7, 8]}, retried=1, exact=False),
    "a permanent failure is not retried": Scenario(210, PERMANENT),
    "a conflict backs off and is retried": Scenario(0, CONFLICT, retried=1),
    "a Pod is deleted by others": Scenario(
        0, LOST, lose_a_pod, tasks_retried={"worker-1": 1}, said=("fw-worker-1: AttemptDeleting",)
    ),
    "the ConfigMap is deleted by others": Scenario(0, THEN_OK, when(first_runs, World.delete_config_map), retried=1),
    "a barrier gives up and the kubelet restarts it": Scenario(
        0, spec=RESTARTED, plan={"gives_up": {"worker-1": [201]}}, tasks_retried={"worker-1": 1}
    ),
    "the barrier of a sidecar gives up for good": Scenario(
        210, STAY, spec=SIDECAR, plan={"gives_up": {"worker-1": [210]}}
    ),
    "a gang waits for a node": Scenario(
        -210, STAY, when(all_run, World.stop), spec=RESTARTED, plan={"no_node": {"worker-2": 25}}
    ),
    "a gang is late again and again": Scenario(
        0,
        {"worker-1": [1, 0]},
        spec=SIDECAR,
        plan={"no_node": {"worker-1": 25, "ps-0": 12}},
        tasks_retried={"worker-1": 1},
    ),
    "a gang whose barriers give up backs off": Scenario(
        0, THEN_OK, spec=RESTARTED, plan={"gives_up": {"ps-0": [201]}}, retried=1
    ),
    # the user
    "somebody changes the roster again and again": Scenario(-210, STAY, tamper_with_the_roster),
    "stopped when all run": Scenario(-210, STAY, when(all_run, World.stop)),
    "stopped from the beginning": Scenario(-210, spec=TWO_ROLES.replace("Start", "Stop")),
    "deleted when all run": Scenario(None, STAY, when(all_run, World.delete_framework), exists=False),
    "deleted before it was started": Scenario(
        None,
        script=when(lambda world: world.stored is not None, World.delete_framework),
        spec=TWO_ROLES.replace("Start", "Create"),
        exists=False,
    ),
    "completed and deleted when it was kept long enough": Scenario(
        0, config=core_config(framework_completed_retain_sec=50), exists=False
    ),
    "zero Tasks run until they are stopped": Scenario(-210, spec=ZERO_TASKS, script=stop_at(State.PREPARING)),
    # rescale
    "scaled up": Scenario(-210, STAY | {"worker-3": ["stay"], "worker-4": ["stay"]}, scale_up),
    "scaled down and up again": Scenario(-210, STAY, scale_down_then_up),
    "scaled down and up when it is gone": Scenario(-210, STAY, scale_down_then_up_when_it_is_gone),
    "scaled to zero and back while it goes": Scenario(-210, STAY, scale_to_zero_and_back),
    "scaled down together with the policy": Scenario(0, {"worker-2": ["stay"]}, two_are_enough_by_the_policy),
    "a role is deleted": Scenario(-210, STAY, drop_a_role),
    "a role is deleted and taken back while it goes": Scenario(-210, STAY, drop_a_role_and_take_it_back),
    "a role is replaced by another": Scenario(-210, STAY | {"chief-0": ["stay"]}, replace_a_role),
    # what becomes of requests
    "a Pod never shows up": Scenario(0, plan={"hide": {"worker-1": 1}}, tasks_retried={"worker-1": 1}, exact=False),
    "a ConfigMap never shows up": Scenario(0, plan={"hide": {CONFIG_MAP: 1}}, retried=1, exact=False),
    "the answer to a Pod's creation is lost": Scenario(0, plan={"lose": {"worker-1": 1, "ps-0": 1}}),
    "the answer to the ConfigMap's creation is lost": Scenario(0, plan={"lose": {CONFIG_MAP: 1}}),
    "a sick server": Scenario(0, exact=False, plan={"sick": {CONFIG_MAP: 2, "worker-1": 3}}),
    "a Pod is refused for good": Scenario(-200, STAY, plan={"refuse": {"worker-1": [422]}}),
    "a Pod is refused for unknown reasons": Scenario(
        0, plan={"refuse": {"worker-1": [403]}}, tasks_retried={"worker-1": 1}
    ),
    "the ConfigMap is refused for a while": Scenario(0, plan={"refuse": {CONFIG_MAP: [403, 403]}}),
    "a template that is no Pod": Scenario(-200, spec=BAD_TEMPLATE),
    # nodes
    "a Pod is stuck and deleted by force": Scenario(
        0, LOST, lose_a_pod, spec=WITH_TIMEOUT, plan={"stuck": {"worker-1"}}, tasks_retried={"worker-1": 1}
    ),
    "a Pod is stuck until its user sets a timeout": Scenario(
        0, LOST, force_a_stuck_pod, plan={"stuck": {"worker-1"}}, tasks_retried={"worker-1": 1}
    ),
}
FAILING: Ends = {**STAY, "worker-1": [1, "stay"]}
STOPPED = {
    f"stopped at {state}": Scenario(code, ends, stop_at(state), retried=retried, lags=(0, 2, 2))
    for state, code, ends, retried in (
        (State.CREATION_PENDING, -210, STAY, 0),
        (State.CREATION_REQUESTED, -210, STAY, 0),
        (State.PREPARING, -210, STAY, 0),
        (State.RUNNING, -210, STAY, 0),
        (State.DELETION_PENDING, 210, PERMANENT, 0),
        (State.DELETION_REQUESTED, 210, PERMANENT, 0),
        (State.DELETING, 210, PERMANENT, 0),
        (State.ATTEMPT_COMPLETED, -210, CONFLICT, 1),
        (State.COMPLETED, 210, PERMANENT, 0),
    )
} | {
    f"stopped when a Task is at {state}": Scenario(
        -210, ends, stop_task_at(state), lags=(0, 2, 2), plan={"slow": {"worker-2"}}, exact=False
    )
    for state, ends in (
        (State.CREATION_REQUESTED, STAY),
        (State.PREPARING, STAY),
        (State.DELETION_PENDING, FAILING),
        (State.DELETION_REQUESTED, FAILING),
        (State.ATTEMPT_COMPLETED, FAILING),
    )
}
