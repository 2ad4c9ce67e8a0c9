"""A role grows from two to four and shrinks to one while it runs, and none of its programs is started again."""

from frameworkdemo.errors import DemoError
from frameworkdemo.examples.example import Example


def steps(example: Example) -> None:
    """Rescale, and wait until the programs have seen it."""
    example.apply()
    for index in range(2):
        example.logged(f"crew-worker-{index}", "2 peers")
    first = example.get("pod/crew-worker-0")["metadata"]["uid"]
    example.rescale("worker", 4)
    for index in range(4):
        example.logged(f"crew-worker-{index}", "4 peers")
    if example.get("pod/crew-worker-0")["metadata"]["uid"] != first:
        raise DemoError("crew-worker-0 was replaced by the rescale")
    example.rescale("worker", 1)
    example.logged("crew-worker-0", "I am the last")
    status = example.ends("Succeeded")["status"]
    tasks = status["attemptStatus"]["taskRoleStatuses"][0]["taskStatuses"]
    # The last one may succeed before those that had to go have left the status.
    stayed = [task for task in tasks if not task["deletionPending"]]
    if len(stayed) != 1 or stayed[0]["retryPolicyStatus"]["totalRetriedCount"]:
        raise DemoError(f"one Task without a retry was expected: {stayed}")
