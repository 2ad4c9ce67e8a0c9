"""A server is killed, and all servers are replaced by a new role, while somebody asks; no request fails."""

import json

from frameworkdemo.examples.example import Example

VISITOR = "visitor-client-0"


def steps(example: Example) -> None:
    """Kill one server, add role green, remove role blue, and wait for the visitor's verdict."""
    example.apply()
    example.logged(VISITOR, "is the first")
    example.logged(VISITOR, "is the first")
    killed = example.get("pod/web-blue-1")["metadata"]["uid"]
    example.kill("web-blue-1")
    example.until("another web-blue-1 that is ready", lambda: ready(example, "web-blue-1", killed))

    # The new role is the old one with another name; a real one would have another image.
    blue = example.get("framework/web")["spec"]["taskRoles"][0]
    patch(example, [{"op": "add", "path": "/spec/taskRoles/-", "value": {**blue, "name": "green"}}])
    example.logged(VISITOR, "web-green-")
    example.logged(VISITOR, "web-green-")
    patch(example, [{"op": "test", "path": "/spec/taskRoles/0/name", "value": "blue"},
                    {"op": "remove", "path": "/spec/taskRoles/0"}])  # fmt: skip
    example.logged(VISITOR, "none failed")
    example.ends("Succeeded", framework="visitor")
    example.kubectl("patch", "framework", "web", "--type=merge", '--patch={"spec":{"executionType":"Stop"}}')
    example.ends("Failed", framework="web")


def patch(example: Example, operations: list[dict[str, object]]) -> None:
    """Change the roles of the Framework."""
    example.kubectl("patch", "framework", "web", "--type=json", "--patch-file=/dev/stdin", stdin=json.dumps(operations))


def ready(example: Example, name: str, not_uid: str) -> bool:
    """Report whether a Pod of this name, other than this one, is ready."""
    pod = example.get(f"pod/{name}")
    if pod is None or pod["metadata"]["uid"] == not_uid:
        return False
    return any(each["type"] == "Ready" and each["status"] == "True" for each in pod["status"].get("conditions", []))
