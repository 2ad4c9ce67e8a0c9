"""Lives of Frameworks of which an archive keeps what has run."""

from frameworkcontroller.api import names
from tests.controller.core.scenarios.lives import CONFLICT, STAY, Scenario, all_run, when
from tests.controller.core.values import core_config
from tests.controller.core.world import World

KEPT = core_config(history=True)
AWAY = {"away": True}


def is_held(world: World) -> bool:
    return names.HISTORY_FINALIZER in world.finalizers


def delete_while_all_run(world: World) -> None:
    if all_run(world) and is_held(world):
        world.delete_in_background()


def delete_while_it_is_retried(world: World) -> None:
    """The attempt is over, and its status is what the archive needs."""
    if not is_held(world):
        return
    if world.stored is not None and world.status.state == "AttemptCompleted":
        world.delete_in_background()
    elif "deletionTimestamp" in world.manifest["metadata"]:
        assert world.status.attempt_status.id == 0
        assert world.status.completion.code == 201


IN_HISTORY = {
    "a log is read before its Pod is deleted": Scenario(
        0, {"worker-1": [1, 0]}, config=KEPT, plan={"read_seconds": 4}, tasks_retried={"worker-1": 1}
    ),
    "the archive is away": Scenario(0, {"worker-1": [1, 0]}, config=KEPT, plan=AWAY, tasks_retried={"worker-1": 1}),
    "all is retried while the archive is away": Scenario(0, CONFLICT, config=KEPT, plan=AWAY, retried=1),
    "deleted in the background when all run": Scenario(None, STAY, delete_while_all_run, config=KEPT, exists=False),
    "deleted in the background while the archive is away": Scenario(
        None, STAY, delete_while_all_run, config=KEPT, plan=AWAY, exists=False
    ),
    "deleted while it is to be retried and the archive is away": Scenario(
        None, CONFLICT, delete_while_it_is_retried, config=KEPT, plan=AWAY, exists=False
    ),
    "deleted in the foreground while the archive is away": Scenario(
        None, STAY, when(all_run, World.delete_framework), config=KEPT, plan=AWAY, exists=False
    ),
}
