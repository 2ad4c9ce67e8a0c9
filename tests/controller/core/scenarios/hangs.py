"""Lives of Frameworks whose gangs hang: an application whose end is `hang STEP TASK...` stops after that step.

The verdict is that of the Pod's own sidecar, and names the Tasks as the culprits.
"""

import json
from typing import Any

from frameworkcontroller.api.states import State
from tests.controller.core.inplace import verdict_of
from tests.controller.core.scenarios.added import SIDECAR
from tests.controller.core.scenarios.in_place import GANG, fail_after_a_success, then_ok
from tests.controller.core.scenarios.lives import Scenario, tasks
from tests.controller.core.world import World

PREFIX = "barrier.frameworkcontroller.microsoft.com"
NOTES = f"{PREFIX}/progress: file, {PREFIX}/hang: restart, {PREFIX}/hang-limit: '{{limit}}'"
IN_PLACE = GANG.replace("annotations: {", f"annotations: {{{NOTES.format(limit=3)}, ")
TWICE = GANG.replace("annotations: {", f"annotations: {{{NOTES.format(limit=2)}, ")
BY_RETRY = SIDECAR.replace("pod: {spec", f"pod: {{metadata: {{annotations: {{{NOTES.format(limit=2)}}}}}, spec")


def on_three_nodes(world: World) -> None:
    world.nodes = {f"node-{number}": {} for number in range(3)}


HANGS = {
    "a gang hangs, and all start again in their Pods": Scenario(
        0,
        then_ok("hang 10 worker-2", 0),
        spec=IN_PLACE,
        tasks_retried={"worker-1": 0, "worker-2": 0, "ps-0": 0},
    ),
    "hangs beyond the limit of restarts end the Tasks that are the culprits": Scenario(
        0,
        then_ok("hang 1", "hang 2", "hang 3 worker-2", 0, runs=3),
        spec=IN_PLACE,
        tasks_retried={"worker-1": 1, "worker-2": 1, "worker-0": 0},
        exact=False,
    ),
    "the lead is the culprit beyond the limit": Scenario(
        0,
        then_ok("hang 1", "hang 2", "hang 3", 0, runs=3),
        spec=IN_PLACE,
        tasks_retried={"worker-1": 1, "worker-2": 0, "worker-0": 0},
        exact=False,
    ),
    "a gang that hangs again at the same step ends": Scenario(-275, then_ok("hang 10", "hang 10", runs=9), spec=TWICE),
    "a gang that hangs after more steps does not": Scenario(
        0, then_ok("hang 10", "hang 11", 0, runs=2), spec=TWICE, tasks_retried={"worker-1": 0}
    ),
    "a node that is the culprit's twice is left": Scenario(
        0,
        then_ok("hang 10 worker-2", "hang 11 worker-2", 0, runs=2),
        on_three_nodes,
        spec=IN_PLACE,
        tasks_retried={"worker-1": 0, "worker-2": 1, "worker-0": 0},
    ),
    "a gang hangs after one of it has succeeded": Scenario(
        0,
        {"worker-0": [0], "worker-1": ["stay", 0], "worker-2": ["stay", 0]},
        lambda world: fail_after_a_success(world, "hang 5 worker-1"),
        spec=IN_PLACE,
        tasks_retried={"worker-1": 1, "worker-0": 0},
        exact=False,
    ),
    "a gang that does not restart in its Pods is retried": Scenario(
        0, {f"worker-{index}": ["hang 10 worker-0" if index == 1 else "stay", 0] for index in range(3)},
        spec=BY_RETRY, retried=1,
    ),
    "it hangs again at the same step": Scenario(
        -275, {"worker-0": ["hang 10"], "worker-1": ["stay"], "worker-2": ["stay"]}, spec=BY_RETRY, retried=1
    ),
    "two sidecars have found the same hang": Scenario(
        0, {f"worker-{index}": ["stay" if index == 0 else "hang 10 worker-0", 0] for index in range(3)},
        spec=BY_RETRY, retried=1,
    ),
}  # fmt: skip


def observe(world: World) -> None:
    """The second rank leads; the gang trains, stops and goes on; then a rank crashes, 100 s after the checkpoint.

    It says as well that its sidecar has ended with a verdict, as only those that restart do.
    """
    assert not world.status.hangs
    worker = tasks(world).get("worker-1")
    if worker is None or worker.state is not State.RUNNING:
        return
    known = world.status.attempt_status.progress
    uid8 = (worker.attempt_status.pod_uid or "")[:8]
    says: dict[str, Any] = {"ip": worker.attempt_status.pod_ip, "uid": uid8, "epoch": 0, "ranks": 3, "silent": 1}
    says["last"] = json.loads(str(verdict_of("hang 5 worker-2", 0)))
    seen = known.slowest if known else None
    if seen is None:
        world.progress = says | {"slowest": 10, "fastest": 12, "perMinute": 4.5, "checkpoint": 8, "savedSec": 30}
    elif seen == 10:
        assert world.status.ledger
        assert world.status.ledger.state == "running"
        hang = json.loads(str(verdict_of("hang 20 worker-2", 0)))
        world.progress = says | {"slowest": 20, "silent": 130, "hang": hang}
    elif seen == 20:
        assert world.status.ledger
        assert (world.status.ledger.state, worker.completion) == ("hung", None)
        world.progress = says | {"slowest": 30, "savedSec": 100}
    elif seen == 30:
        world.plan.ends = {f"worker-{index}": [1, 0] for index in range(3)}


TOLD = SIDECAR.replace("pod: {spec", f"pod: {{metadata: {{annotations: {{{PREFIX}/progress: file}}}}, spec").replace(
    "maxRetryCount: 1}, pod", "maxRetryCount: 0}, pod"
)
HANGS["a hang is seen and told, and does nothing"] = Scenario(
    0, {f"worker-{index}": ["stay", 0] for index in range(3)}, observe, spec=TOLD, retried=1, exact=False
)
