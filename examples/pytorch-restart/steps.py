"""A rank is killed twice; each time all ranks go on from the checkpoint, in the same Pods."""

from typing import Any

from frameworkdemo.errors import DemoError
from frameworkdemo.examples.example import Example

KILLS = 2


def steps(example: Example) -> None:
    """Kill the processes of a rank after two checkpoints, and again after two more."""
    example.apply()
    first = example.logged("restart-worker-0", "checkpoint of step 25")
    example.logged("restart-worker-0", "checkpoint of step 50")
    before = pods(example.get("framework/restart"))
    for rank in range(1, KILLS + 1):
        # All processes of the container but its first, which is torchrun.
        example.kubectl("exec", f"restart-worker-{rank}", "-c", "train", "--", "sh", "-c", "kill -9 -1")
        went_on = example.logged("restart-worker-0", "goes on after step")
        saved = example.logged("restart-worker-0", "checkpoint of step")
        if max(loss(went_on), loss(saved)) > loss(first) / 2:
            raise DemoError(f"it does not go on: {first!r}, {went_on!r}, {saved!r}")
        example.logged("restart-worker-0", "checkpoint of step")
    found = example.ends("Succeeded")
    attempt = found["status"]["attemptStatus"]
    if (attempt["id"], attempt["gangRestarts"], pods(found)) != (0, KILLS, before):
        raise DemoError(f"not one attempt with {KILLS} restarts in the same Pods: {attempt}")
    for restart in attempt["lastGangRestarts"]:
        example.say(
            f"restart {restart['epoch']}: {restart['task']} exited with {restart.get('code', 'an unknown code')}"
        )


def pods(framework: Any) -> list[tuple[int, str]]:
    """Return the attempt and the UID of the Pod of each Task."""
    tasks = framework["status"]["attemptStatus"]["taskRoleStatuses"][0]["taskStatuses"]
    return [(task["attemptStatus"]["id"], task["attemptStatus"]["podUID"]) for task in tasks]


def loss(line: str) -> float:
    """Return the loss at the end of a line."""
    return float(line.rsplit(" ", 1)[1])
