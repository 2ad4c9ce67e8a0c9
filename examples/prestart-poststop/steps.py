"""Prepare, start, stop, look, and delete: what a service above Frameworks does around each of them."""

import json

from frameworkdemo.errors import DemoError
from frameworkdemo.examples.example import Example

INPUT = "configmap/worker-input"


def steps(example: Example) -> None:
    """Take a Framework through its whole life by `executionType`."""
    example.apply()
    example.kubectl("wait", "--for=condition=Suspended", "framework/worker", "--timeout=300s")

    # Before the start: the Framework has its identity, and what is made for it may be owned by it.
    metadata = example.get("framework/worker")["metadata"]
    owner = {
        "apiVersion": "frameworkcontroller.microsoft.com/v1", "kind": "Framework",
        "name": metadata["name"], "uid": metadata["uid"],
    }  # fmt: skip
    prepared = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "worker-input", "ownerReferences": [{**owner, "blockOwnerDeletion": True}]},
        "data": {"owner": metadata["uid"], "lines": "one two three"},
    }
    example.kubectl("create", "--filename=-", stdin=json.dumps(prepared))
    example.kubectl("patch", "framework", "worker", "--type=merge", '--patch={"spec":{"executionType":"Start"}}')
    for index in range(2):
        example.logged(f"worker-main-{index}", "working on 'one two three'")

    example.kubectl("patch", "framework", "worker", "--type=merge", '--patch={"spec":{"executionType":"Stop"}}')
    stopped = example.ends("Failed")["status"]["attemptStatus"]

    # After the stop: no Pod runs, and the Framework, its status and its input are still there.
    completion = stopped["completionStatus"]
    tasks = [task["attemptStatus"] for task in stopped["taskRoleStatuses"][0]["taskStatuses"]]
    example.say(
        f"{completion['phrase']} ({completion['code']}); Tasks: {[t['completionStatus']['code'] for t in tasks]}"
    )
    pods = example.kubectl("get", "pods", "--output=name")
    if completion["code"] != -210 or pods or example.get(INPUT) is None:
        raise DemoError(f"expected a stopped Framework, its input and no Pods: {completion}, Pods: {pods!r}")

    example.kubectl("delete", "framework", "worker", "--cascade=foreground", "--timeout=300s")
    if example.get(INPUT) is not None:
        raise DemoError(f"{INPUT} was left behind")
    example.say(f"{INPUT} went with its owner")
