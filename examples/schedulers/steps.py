"""Gangs in groups of three schedulers; the controller on the node of the demo makes none, so they wait, and say so."""

from frameworkdemo.errors import DemoError
from frameworkdemo.examples.example import Example


def steps(example: Example) -> None:
    """Find what each of them says, and that no Pod was made; then stop them."""
    example.apply()
    for name in ("kubernetes", "volcano", "coscheduling"):
        told = example.until(f"what {name} waits for", lambda name=name: waiting(example, name))
        example.say(f"{name} waits: {told}")
        example.kubectl("patch", "framework", name, "--type=merge", '--patch={"spec":{"executionType":"Stop"}}')
        example.ends("Failed", framework=name)
    if pods := example.kubectl("get", "pods", "--output=name").split():
        raise DemoError(f"no Pod should have been made without its group: {pods}")


def waiting(example: Example, name: str) -> str:
    """Return why a Framework waits for its groups, "" as long as it does not say so."""
    conditions = example.get(f"framework/{name}").get("status", {}).get("conditions") or []
    return next((str(one["message"]) for one in conditions if one["reason"] == "GroupsUnknown"), "")
