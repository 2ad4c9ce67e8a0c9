"""What is retried, by whom, and what counts: the retryPolicyStatus of three Frameworks says it."""

from typing import Any

from frameworkdemo.errors import DemoError
from frameworkdemo.examples.example import Example


def steps(example: Example) -> None:
    """Wait for the three ends, and compare the counts."""
    example.apply()
    one, all_, none = (
        example.ends(result, framework=name)["status"]
        for name, result in (("one", "Succeeded"), ("all", "Succeeded"), ("none", "Failed"))
    )
    # Of two retries of worker-1 one counts: its first failure was transient.
    found = {"one": counts(one), "one-worker-1": counts(task(one, 1)), "one-worker-0": counts(task(one, 0))}
    # A new attempt has new Tasks, whose counts begin at 0.
    found |= {"all": counts(all_), "all-worker-1": counts(task(all_, 1))}
    found |= {"none": counts(none), "none-worker-0": counts(task(none, 0))}
    for name, (total, accountable) in found.items():
        example.say(f"{name}: {total} retries, {accountable} of them count")
    expected = {
        "one": (0, 0), "one-worker-1": (2, 1), "one-worker-0": (0, 0),
        "all": (1, 1), "all-worker-1": (0, 0),
        "none": (0, 0), "none-worker-0": (0, 0),
    }  # fmt: skip
    if found != expected:
        raise DemoError(f"expected {expected}")
    phrase = none["attemptStatus"]["completionStatus"]["phrase"]
    if phrase != "ContainerPermanentFailed":
        raise DemoError(f"none ended with {phrase}")


def task(status: Any, index: int) -> Any:
    """Return the status of a Task of role worker."""
    return status["attemptStatus"]["taskRoleStatuses"][0]["taskStatuses"][index]


def counts(status: Any) -> tuple[int, int]:
    """Return all retries and the accountable ones."""
    policy = status["retryPolicyStatus"]
    return policy["totalRetriedCount"], policy["accountableRetriedCount"]
