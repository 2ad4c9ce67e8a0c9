"""Run one example: give it a namespace, take its steps, and leave nothing behind."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from frameworkdemo import manifests
from frameworkdemo.cluster import Cluster
from frameworkdemo.errors import FAILURES
from frameworkdemo.examples import catalogue
from frameworkdemo.examples.example import Example
from frameworkdemo.examples.story import Story

AS_EXPECTED = "as expected"
_SHORT = 100
"""The characters of a result that fit into the table; the lines above it have all of them."""


@dataclass(frozen=True)
class Outcome:
    """How long an example took until its last step was done, and `AS_EXPECTED` or what went wrong."""

    name: str
    seconds: float
    result: str


def run(cluster: Cluster, folder: Path, write: Callable[[str], None] = print) -> Outcome:
    """Run an example on a node that has the three programs, until it ends as it should or does not.

    Raises:
        DemoError: It could not be prepared or removed.
    """
    namespace = f"example-{folder.name}"
    # An interrupted run may have left it.
    _remove(cluster, folder, namespace)
    cluster.apply([manifests.namespace(namespace)])
    with cluster.client(namespace) as client:
        story = Story(client, write)
        try:
            result = _steps_taken(Example(folder, namespace, cluster, client, story))
            seconds = story.seconds()
            story.say(f"{folder.name}: {result}")
            if result != AS_EXPECTED:
                write(cluster.kubectl("get", "events", f"-n={namespace}", "--sort-by=.lastTimestamp"))
        finally:
            _remove(cluster, folder, namespace)
            story.end()
    return Outcome(folder.name, seconds, result)


def _steps_taken(example: Example) -> str:
    try:
        catalogue.steps_of(example.folder)(example)
    except (AssertionError, *FAILURES) as error:
        return str(error) or type(error).__name__
    return AS_EXPECTED


def _remove(cluster: Cluster, folder: Path, namespace: str) -> None:
    # The Frameworks go first, while the controller still has what it needs to end them.
    cluster.delete("frameworks", "--all", f"-n={namespace}", "--cascade=foreground")
    cluster.delete("-k", str(folder), f"-n={namespace}")
    cluster.delete("namespace", namespace)


def as_table(outcomes: Sequence[Outcome]) -> list[str]:
    """Return the lines of a table."""
    width = max(len(each.name) for each in outcomes)
    lines = [f"{'example':<{width}}  seconds  result"]
    for each in outcomes:
        result = each.result if len(each.result) <= _SHORT else f"{each.result[:_SHORT]}..."
        lines.append(f"{each.name:<{width}}  {each.seconds:>7.1f}  {result}")
    return lines
