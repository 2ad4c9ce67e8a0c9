"""Two gangs in a queue of Kueue, which is not on the node of the demo: there both run at once, and an Event says so."""

from frameworkdemo.errors import DemoError
from frameworkdemo.examples.example import Example


def steps(example: Example) -> None:
    """Run both without Kueue, and find the Event that says that the label has no effect."""
    example.apply()
    for name in ("first", "second"):
        example.ends("Succeeded", framework=name)
    said = example.kubectl("get", "events", "--field-selector=reason=QueueIgnored", "--output=name").split()
    if len(said) != 2:
        raise DemoError(f"each of two Frameworks should have one Event QueueIgnored: {said}")
    example.say("without Kueue the label means nothing, as an Event of each says")
