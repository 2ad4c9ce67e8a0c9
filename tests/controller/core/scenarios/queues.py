"""Lives of Frameworks in a queue of Kueue."""

import functools

from frameworkcontroller.api.states import State
from frameworkcontroller.api.workload import QUEUE_LABEL
from tests.controller.core.scenarios.added import UNRETRIED, resume, suspend_while_all_run
from tests.controller.core.scenarios.in_place import GANG, then_ok
from tests.controller.core.scenarios.lives import STAY, TWO_ROLES, Scenario, attempt, first_runs, scale, when, workers
from tests.controller.core.values import core_config
from tests.controller.core.world import World

MINE = "metadata: {labels: {kueue.x-k8s.io/podset: mine}}"


def is_queued(world: World) -> bool:
    return world.kueue.document is not None


def end_of_next(world: World) -> None:
    """All end in the next attempt."""
    world.plan.ends = {"ps-0": ["stay"]}


def preempt(world: World) -> None:
    """Kueue takes the quota when all run, and gives it back when it has it."""
    if first_runs(world) and world.kueue.is_true("Admitted"):
        world.kueue.capacity = 0
        world.kueue.evict()
        end_of_next(world)
    elif world.kueue.document is not None and not world.kueue.is_true("QuotaReserved"):
        world.kueue.capacity = 100


def deactivate(world: World) -> None:
    if first_runs(world) and world.kueue.is_true("Admitted"):
        world.kueue.evict("Deactivated")
        end_of_next(world)


def preempt_at_the_barrier(world: World) -> None:
    """Kueue takes the quota when the ConfigMap is there and no Pod runs."""
    if attempt(world) == 0 and world.status.state is State.PREPARING and not world.kueue.is_true("Evicted"):
        world.kueue.evict()
        end_of_next(world)


def lose_the_workload(world: World) -> None:
    if first_runs(world) and is_queued(world):
        world.kueue.delete()
        end_of_next(world)


def let_it_wait(world: World) -> None:
    """There is no quota before it waits."""
    if world.kueue.document is not None and world.status.queue and world.status.queue.waiting:
        assert world.config_map is None or world.kueue.capacity
        world.kueue.capacity = 100


def grow(world: World) -> None:
    if first_runs(world) and workers(world) == 3:
        scale(world, 5, minSucceededTaskCount=5)
        end_of_next(world)


def has_given_back(world: World, number: int = 1) -> bool:
    """Whether Kueue knows that so many workers have ended for good, or are no more."""
    reclaimed = [{"name": "worker", "count": number}]
    return world.kueue.document is not None and world.kueue.document["status"].get("reclaimablePods") == reclaimed


def shrink_and_grow(world: World) -> None:
    """Two fewer, which is told; then as many as before are too many."""
    if first_runs(world) and workers(world) == 3:
        scale(world, 1, minSucceededTaskCount=1)
    elif attempt(world) == 0 and workers(world) == 1 and has_given_back(world, 2):
        scale(world, 3, minSucceededTaskCount=3)
        end_of_next(world)


def need_more(world: World) -> None:
    """Each Pod is to have more."""
    container = world.spec["taskRoles"][1]["task"]["pod"]["spec"]["containers"][0]
    if first_runs(world) and "resources" not in container:
        container["resources"] = {"requests": {"cpu": "1"}}
        world.edited()
        end_of_next(world)


def move_to_another_queue(world: World) -> None:
    if is_queued(world) and world.manifest["metadata"]["labels"][QUEUE_LABEL] == "main":
        world.manifest["metadata"]["labels"] = {QUEUE_LABEL: "other"}
        world.edited()
    elif world.kueue.document is not None and world.kueue.document["spec"]["queueName"] == "other":
        world.kueue.capacity = 100


def leave_the_queue(world: World) -> None:
    if is_queued(world) and world.manifest["metadata"]["labels"]:
        world.manifest["metadata"]["labels"] = {}
        world.edited()


def preempt_the_gang(world: World) -> None:
    """A rank has crashed, all have started again in their Pods under the admission; then Kueue takes the quota."""
    if first_runs(world) and world.status.attempt_status.gang_epoch == 1:
        assert world.kueue.admissions == 1
        preempt(world)
    elif attempt(world) > 0:
        preempt(world)


def mend_the_template(world: World) -> None:
    """A label of the template contradicts the admission, until the user takes it away."""
    pod = world.spec["taskRoles"][1]["task"]["pod"]
    if world.stored is None or not world.kueue.is_true("Finished") or world.config_map is not None:
        return
    if "metadata" in pod and world.kueue.made == 1:
        del pod["metadata"]
        world.edited()


def install_kueue(world: World) -> None:
    world.kueue.known = world.stored is not None and world.status.queue is not None


queued = functools.partial(Scenario, config=core_config(kueue=True), labels={QUEUE_LABEL: "main"})
FULL = {"capacity": 0}


IN_QUEUES = {
    "admitted at once": queued(0),
    "it waits for quota": queued(0, script=let_it_wait, plan=FULL),
    "Kueue comes later": queued(0, script=install_kueue),
    "a Task is retried under the admission": queued(0, {"worker-1": [1, 0]}, tasks_retried={"worker-1": 1}),
    "an attempt is retried under the admission": queued(0, {"worker-1": [1, 1, 0]}, retried=1),
    "preempted while all run": queued(0, STAY, preempt, spec=UNRETRIED, retried=1),
    "deactivated, and activated": queued(0, STAY, deactivate, spec=UNRETRIED, retried=1),
    "preempted at the barrier": queued(0, STAY, preempt_at_the_barrier, spec=UNRETRIED, retried=1, exact=False),
    "a gang in its second epoch is preempted": queued(
        0, then_ok(3, "stay", "stay", runs=2), preempt_the_gang, spec=GANG, retried=1, exact=False
    ),
    "what contradicts the admission is mended": queued(
        0,
        script=mend_the_template,
        spec=TWO_ROLES.replace("maxRetryCount: 1}, pod: {", f"maxRetryCount: 1}}, pod: {{{MINE}, "),
    ),
    "its Workload is deleted": queued(0, STAY, lose_the_workload, spec=UNRETRIED, retried=1),
    "scaled up": queued(0, STAY, grow, spec=UNRETRIED, retried=1),
    "scaled down, and up again": queued(0, STAY, shrink_and_grow, spec=UNRETRIED, retried=1),
    "what has ended for good is given back": queued(0, STAY | {"worker-1": [0]}, when(has_given_back, end_of_next)),
    "its Pods are to have more": queued(0, STAY, need_more, spec=UNRETRIED, retried=1),
    "moved to another queue": queued(0, script=move_to_another_queue, plan=FULL),
    "taken out of the queue": queued(0, script=leave_the_queue, plan=FULL),
    "stopped in the queue": queued(-210, script=when(is_queued, World.stop), plan=FULL),
    "suspended, and resumed": queued(0, STAY, when(suspend_while_all_run, resume), spec=UNRETRIED, retried=1),
}
