"""A rank is stopped; its sidecars find out, and all ranks go on from the checkpoint, in the same Pods."""

from frameworkdemo.errors import DemoError
from frameworkdemo.examples.example import Example

STOPPED = 1


def steps(example: Example) -> None:
    """Stop the processes of a rank after some checkpoints."""
    example.apply()
    example.logged("hang-worker-0", "begins after step 0")
    example.logged("hang-worker-0", "checkpoint of step 200")
    # All processes of the container but its first, which is torchrun.
    example.kubectl("exec", f"hang-worker-{STOPPED}", "-c", "train", "--", "sh", "-c", "kill -STOP -1")
    example.logged("hang-worker-0", "begins after step 200")
    status = example.ends("Succeeded")["status"]
    hang = status["hangs"]["last"]
    culprits = [culprit["task"] for culprit in hang["culprits"]]
    if culprits != [f"worker-{STOPPED}"] or status["attemptStatus"]["gangRestarts"] != 1:
        raise DemoError(f"it is not found that worker-{STOPPED} stands still: {hang}")
    example.say(f"no progress for {hang['silent']} s: {culprits[0]} {hang['why']}")
