"""Run one example: load its images, give it a namespace, take its steps, and leave nothing behind."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from frameworkdemo import cluster as access
from frameworkdemo import deploy, manifests
from frameworkdemo.errors import DemoError
from frameworkdemo.examples import catalogue
from frameworkdemo.examples.example import Example
from frameworkdemo.examples.story import Story
from frameworkdemo.follow import Follower

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from localcluster import Cluster

AS_EXPECTED = "as expected"
_EVENTS = 25
_SHORT = 100
"""The characters of a result that fit into the table; the lines above it have all of them."""


@dataclass(frozen=True)
class Outcome:
    """How an example went.

    Attributes:
        name: The name of the example.
        pods: The number of its Pods, those of retries included.
        gate: The seconds until all barriers of its first gang were open; None if it has none.
        end: The seconds until its last step was done.
        result: `AS_EXPECTED`, or what went wrong.
    """

    name: str
    pods: int
    gate: float | None
    end: float
    result: str


def run(cluster: Cluster, folder: Path, write: Callable[[str], None] = print) -> Outcome:
    """Run an example on a node that has the three programs, until it ends as it should or does not.

    Args:
        cluster: The cluster.
        folder: The folder of the example.
        write: Takes each line about what happens.

    Raises:
        DemoError: It could not be prepared or removed.
    """
    connection = access.connect(os.fspath(cluster.kubeconfig), None)
    namespace = manifests.namespace(f"example-{folder.name}")
    # An interrupted run may have left it.
    deploy.remove(connection, [namespace], None, lambda _: None)
    connection.apply([namespace])
    story = Story(write)
    follower = Follower(connection, namespace["metadata"]["name"], story, story.say)
    example = Example(folder, namespace["metadata"]["name"], connection, _kubectl(cluster), story, follower)
    try:
        result = _steps_taken(example)
        end = story.seconds()
        if result != AS_EXPECTED:
            write("--- Events")
            for line in deploy.pod_events(connection, example.namespace, _EVENTS):
                write(f"    {line}")
    finally:
        follower.close()
        # The Frameworks go first, while the controller still has what it needs to end them.
        objects = sorted(example.objects, key=lambda each: bool(each["kind"] != "Framework"))
        deploy.remove(connection, objects, example.namespace, lambda _: None)
        deploy.remove(connection, [namespace], None, lambda _: None)
    return Outcome(folder.name, story.pods, story.gate_seconds, end, result)


def _steps_taken(example: Example) -> str:
    try:
        catalogue.steps_of(example.folder)(example)
    except (DemoError, AssertionError, *access.API_ERRORS) as error:
        result = access.reason_of(error)
    else:
        result = AS_EXPECTED
    example.say(f"{example.folder.name}: {result}")
    return result


def as_table(outcomes: Sequence[Outcome]) -> list[str]:
    """Return the lines of a table."""
    width = max(len(each.name) for each in outcomes)
    lines = [f"{'example':<{width}}  Pods  seconds to gate  seconds to end  result"]
    for each in outcomes:
        gate = "-" if each.gate is None else f"{each.gate:.1f}"
        result = each.result if len(each.result) <= _SHORT else f"{each.result[:_SHORT]}..."
        lines.append(f"{each.name:<{width}}  {each.pods:>4}  {gate:>15}  {each.end:>14.1f}  {result}")
    return lines


def _kubectl(cluster: Cluster) -> list[str]:
    from localcluster import binaries
    from localcluster.progress import Lines

    program = binaries.find("kubectl", kubernetes=cluster.version, progress=Lines())
    return [os.fspath(program), f"--kubeconfig={cluster.kubeconfig}"]
