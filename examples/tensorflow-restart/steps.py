"""A worker and then the chief are killed; each time all go on from the checkpoint, in the same Pods."""

from typing import Any

from frameworkdemo.errors import DemoError
from frameworkdemo.examples.example import Example

VICTIMS = ("restart-worker-1", "restart-chief-0")


def steps(example: Example) -> None:
    """Kill a program after two checkpoints, and another one after two more."""
    example.apply()
    first = example.logged("restart-chief-0", "checkpoint of step 25")
    example.logged("restart-chief-0", "checkpoint of step 50")
    before = pods(example.get("framework/restart"))
    for victim in VICTIMS:
        # All processes of the container but its first, which is the shell.
        example.kubectl("exec", victim, "-c", "tensorflow", "--", "sh", "-c", "kill -9 -1")
        went_on = example.logged("restart-chief-0", "goes on after step")
        saved = example.logged("restart-chief-0", "checkpoint of step")
        if max(loss(went_on), loss(saved)) > loss(first) / 2:
            raise DemoError(f"it does not go on: {first!r}, {went_on!r}, {saved!r}")
        example.logged("restart-chief-0", "checkpoint of step")
    found = example.ends("Succeeded")
    attempt = found["status"]["attemptStatus"]
    if (attempt["id"], attempt["gangRestarts"], pods(found)) != (0, len(VICTIMS), before):
        raise DemoError(f"not one attempt with {len(VICTIMS)} restarts in the same Pods: {attempt}")
    for restart in attempt["lastGangRestarts"]:
        example.say(
            f"restart {restart['epoch']}: {restart['task']} exited with {restart.get('code', 'an unknown code')}"
        )


def pods(framework: Any) -> list[tuple[int, str]]:
    """Return the attempt and the UID of the Pod of each Task."""
    roles = framework["status"]["attemptStatus"]["taskRoleStatuses"]
    attempts = [task["attemptStatus"] for role in roles for task in role["taskStatuses"]]
    return [(attempt["id"], attempt["podUID"]) for attempt in attempts]


def loss(line: str) -> float:
    """Return the loss at the end of a line."""
    return float(line.rsplit(" ", 1)[1])
