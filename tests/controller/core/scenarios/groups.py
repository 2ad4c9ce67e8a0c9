"""Lives of Frameworks whose Pods a scheduler places in groups."""

import functools
from collections.abc import Callable

from frameworkcontroller.api import names
from frameworkcontroller.api.pod_group import PER_ROLE, GangScheduling
from frameworkcontroller.api.states import State
from frameworkcontroller.api.workload import QUEUE_LABEL
from frameworkcontroller.core.reconcile.config import CoreConfig
from tests.controller.core.scenarios.added import DEPENDENT, UNREADY, UNRETRIED, ps_runs, resume, suspend_while_all_run
from tests.controller.core.scenarios.in_place import GANG, then_ok
from tests.controller.core.scenarios.lives import (
    STAY,
    TWO_ROLES,
    Scenario,
    Script,
    all_run,
    attempt,
    first_runs,
    lose_a_pod,
    scale,
    when,
    workers,
)
from tests.controller.core.scenarios.queues import end_of_next
from tests.controller.core.values import core_config
from tests.controller.core.world import World

FIRST = "fw-attempt-0"


def config(per: str = "Attempt", scheduler: str = "kubernetes", **more: bool) -> CoreConfig:
    return core_config(gang_scheduling=GangScheduling(scheduler, per), **more)


def said(world: World) -> str:
    """What the status says of the groups, by reason and message."""
    conditions = () if world.stored is None else world.status.conditions or ()
    return next((f"{one.reason} {one.message}" for one in conditions if one.type == "GangScheduled"), "")


def waits(world: World, number: int) -> bool:
    """Whether the status says that there is no place for so many."""
    return said(world).startswith("Unschedulable") and f"for {number} of {number}" in said(world)


def take_no_notice(world: World) -> None:
    """The scheduler knows no groups; all may end once that is said."""
    world.groups.is_gated = True
    if "NotGangScheduled" in said(world):
        world.stop()


def need_fewer_in_silence(world: World) -> None:
    """There is room for three of four, and the scheduler says nothing of that."""
    world.groups.room = 3
    if world.groups.documents and world.pods and workers(world) == 3:
        scale(world, 2, minSucceededTaskCount=2)
    assert not said(world)


def make_room(world: World) -> None:
    assert not world.running
    world.groups.room = 100


def need_fewer(world: World) -> None:
    """There is room for three of four."""
    world.groups.room = 3
    if waits(world, 4):
        scale(world, 2, minSucceededTaskCount=2)


def grow(world: World) -> None:
    if first_runs(world) and workers(world) == 3:
        scale(world, 5, minSucceededTaskCount=5)
    elif workers(world) == 5 and all_run(world) and world.groups.seen[FIRST].min_count == 6:
        world.stop()


def preempt(world: World) -> None:
    if first_runs(world) and FIRST in world.groups.documents:
        end_of_next(world)
        world.groups.preempt(FIRST)


def serve_groups(world: World) -> None:
    """The API server has the kind once a Framework waits for it."""
    world.groups.known = world.stored is not None


def refuse_groups(world: World) -> None:
    """A webhook refuses the group until somebody corrects it; no Pod is made meanwhile."""
    is_refused = attempt(world) == 0 and world.status.state is State.PREPARING and not world.groups.made
    world.groups.refusal = "no such priority class" if attempt(world) < 0 or (is_refused and not world.notes) else ""
    if is_refused and "GroupsRefused no such priority class" in said(world):
        assert not world.pods
        world.notes["mended"] = True


def interfere(act: Callable[[World], object]) -> Script:
    """Somebody does it when all run; once the group is there again and seen, all may end."""

    def script(world: World) -> None:
        if first_runs(world) and FIRST in world.groups.seen:
            if world.notes:
                world.stop()
            else:
                world.notes["once"] = True
                act(world)

    return script


def hide_the_group(world: World) -> None:
    """Without the label the cache does not find it."""
    del world.groups.documents[FIRST]["metadata"]["labels"][names.FRAMEWORK_NAME]


def lose_the_group(world: World) -> None:
    del world.groups.documents[FIRST]


grouped = functools.partial(Scenario, config=config())
IN_GROUPS = {
    "one group": grouped(0),
    "a group for each role": grouped(0, config=config(PER_ROLE)),
    "a group for the role that waits for others": grouped(
        0, script=when(ps_runs, lambda world: world.plan.unready.clear()), spec=DEPENDENT, plan=UNREADY
    ),
    "no groups, as it says": grouped(0, spec=TWO_ROLES + "gangScheduling: {scheduler: none}\n"),
    "no place until another gang is over": grouped(0, script=when(lambda world: waits(world, 4), make_room)),
    "rescaled while it waits": grouped(0, script=need_fewer),
    "rescaled while it waits, by Volcano": grouped(0, script=need_fewer, config=config(scheduler="volcano")),
    "rescaled while it waits, by coscheduling": grouped(
        0, script=need_fewer_in_silence, config=config(scheduler="coscheduling")
    ),
    "scaled up in its group": grouped(-210, STAY | {"worker-3": ["stay"], "worker-4": ["stay"]}, grow),
    "a Task is retried in its group": grouped(0, {"worker-1": [1, 0]}, tasks_retried={"worker-1": 1}),
    "a Pod is deleted, and made again in its group": grouped(
        0, {"worker-1": ["stay", 0]}, lose_a_pod, tasks_retried={"worker-1": 1}
    ),
    "an attempt is retried in a group of its own": grouped(0, {"worker-1": [1, 1, 0]}, retried=1),
    "preempted": grouped(0, STAY, preempt, spec=UNRETRIED, retried=1),
    "a scheduler that takes no notice": grouped(-210, STAY, take_no_notice),
    "the kind is served later": grouped(0, script=serve_groups),
    "the group is refused until that is mended": grouped(0, script=refuse_groups),
    "the group is hidden": grouped(-210, STAY, interfere(hide_the_group), spec=UNRETRIED),
    "the group is deleted": grouped(-210, STAY, interfere(lose_the_group), spec=UNRETRIED),
    "in place, in its group": grouped(0, then_ok(3, 0), spec=GANG, tasks_retried={"worker-1": 0}),
    "in a queue and in a group": grouped(0, config=config(kueue=True), labels={QUEUE_LABEL: "main"}),
    "suspended, and resumed": grouped(0, STAY, when(suspend_while_all_run, resume), spec=UNRETRIED, retried=1),
}
