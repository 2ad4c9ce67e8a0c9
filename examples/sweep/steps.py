"""Trials run and fail by themselves; the status of the Framework has their results."""

from frameworkdemo.errors import DemoError
from frameworkdemo.examples.example import Example

BEST = 5


def steps(example: Example) -> None:
    """Wait for the end, and read the results of the trials from the status."""
    example.apply()
    status = example.ends("Succeeded")["status"]["attemptStatus"]
    (role,) = status["taskRoleStatuses"]
    results = {}
    for task in role["taskStatuses"]:
        completion = task["attemptStatus"]["completionStatus"]
        results[task["index"]] = message = completion["pod"]["containers"][0]["message"]
        example.say(f"trial {task['index']}: {completion['phrase']}: {message}")
    losses = {index: float(text.partition("loss=")[2]) for index, text in results.items() if "loss=" in text}
    if len(results) - len(losses) != 2 or min(losses, key=losses.__getitem__) != BEST:
        raise DemoError(f"two trials should have diverged, and trial {BEST} should be the best: {results}")
    example.say(f"the best of {len(results)} is trial {BEST}")
