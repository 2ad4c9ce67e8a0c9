"""A queue: jobs wait as suspended Frameworks, and are resumed one after the other; the last is never needed."""

import json

from frameworkdemo.errors import DemoError
from frameworkdemo.examples.example import Example


def steps(example: Example) -> None:
    """Resume two of three Frameworks one after the other, and stop the third before it ever ran."""
    example.apply()
    example.kubectl("wait", "--for=condition=Suspended", "framework", "--selector=queue=example", "--timeout=300s")
    pods = example.kubectl("get", "pods", "--output=name")
    if pods:
        raise DemoError(f"suspended Frameworks have Pods: {pods}")
    for line in example.kubectl("get", "frameworks").splitlines():
        example.say(line)
    for name in ("first", "second"):
        patch(example, name, suspend=False)
        example.ends("Succeeded", framework=name)
    waiting = example.get("framework/third")["status"]
    if waiting["state"] != "AttemptCreationPending":
        raise DemoError(f"third has not waited: {waiting['state']}")
    patch(example, "third", executionType="Stop")
    stopped = example.ends("Failed", framework="third")["status"]
    if stopped["runTime"] is not None or stopped["attemptStatus"]["completionStatus"]["code"] != -210:
        raise DemoError(f"third should have been stopped before it ran: {stopped}")


def patch(example: Example, name: str, **fields: object) -> None:
    """Set fields of the spec, as any client of the API may do."""
    example.kubectl("patch", "framework", name, "--type=merge", f"--patch={json.dumps({'spec': fields})}")
