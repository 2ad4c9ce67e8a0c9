"""The order of things: prepare, deploy, apply, watch until the end, sum up; and what to say when it goes wrong."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from demo import deploy, events, manifests
from demo.errors import DemoError
from demo.facts import Stage, expected_tasks
from demo.model import Progress
from demo.parts import part, step
from demo.watch import Watcher
from demo.words import outcome, task_state

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from demo.cluster import Cluster
    from demo.display import Board
    from demo.model import Demo
    from demo.target import Target

NAMESPACE = "demo"
LOGS_SETTLE_SECONDS = 1.0
LOG_TAIL = 25
IMAGE_TROUBLE = ("ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName")
IMAGE_SECONDS = 20.0
"""A registry may fail once; longer than this, and it is not there."""


@dataclass(frozen=True)
class Options:
    """What a person may choose.

    Attributes:
        namespace: Where the Framework goes.
        gang_seconds: How long the Framework may take from apply to Completed.
        framework: Its manifest.
    """

    namespace: str = NAMESPACE
    gang_seconds: float = 300.0
    framework: Path = manifests.FRAMEWORK


def run(board: Board, target: Target, options: Options) -> None:
    """Run the demo from the beginning to the Framework's end.

    Raises:
        DemoError: It did not get to a Succeeded Framework; the text says what failed.
    """
    board.post(events.Planned(board.now(), (*target.steps, "programs", "gang")))
    target.prepare(board.post)
    cluster = target.connect()
    with step(board.post, "programs"), part(board.post, "controller, injector") as tell:
        deploy.deploy(cluster, manifests.programs(target.naming, target.revision), tell)
    with step(board.post, "gang"):
        _gang(board, cluster, target, options)


def _gang(board: Board, cluster: Cluster, target: Target, options: Options) -> None:
    framework = manifests.framework(target.naming, options.framework)
    name = framework["metadata"]["name"]
    cluster.apply([manifests.namespace(options.namespace)])
    with part(board.post, "remove the previous run") as tell:
        deploy.remove_framework(cluster, framework, options.namespace, tell)
    watcher = Watcher(cluster, options.namespace, name, board.post)
    board.post(events.Applied(board.now(), name, expected_tasks(framework)))
    watcher.start()
    try:
        cluster.apply([framework], options.namespace)
        _follow(board, options.gang_seconds)
        # The last lines of a log may come after the status that ends it all.
        time.sleep(LOGS_SETTLE_SECONDS)
    finally:
        watcher.stop()
    demo = board.demo
    if _ungated(demo):
        raise DemoError("the Pods carry the label, but no barrier was injected")
    if not demo.finished:
        states = ", ".join(f"{key} {task_state(task)}" for key, task in demo.tasks.items())
        raise DemoError(f"{name} was not Completed within {options.gang_seconds:.0f} s: {outcome(demo)}; {states}")
    if not demo.succeeded:
        completion = demo.framework.completion if demo.framework else None
        raise DemoError(f"{name}: {outcome(demo)}: {completion.diagnostics if completion else ''}")


def _follow(board: Board, seconds: float) -> None:
    """Wait until there is nothing more to wait for, at most so many seconds."""
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        board.wait(lambda demo: demo.finished or _ungated(demo) or bool(_without_image(demo)), left)
        if board.demo.finished or _ungated(board.demo):
            return
        if not board.wait(lambda demo: not _without_image(demo), min(left, IMAGE_SECONDS)):
            raise DemoError(f"{_without_image(board.demo)}\nDoes the cluster have the project's images?")


def _without_image(demo: Demo) -> str:
    """Return which Pod cannot have its image, and why; empty if all can."""
    troubles = (f"{key}: {task.pod.reason}" for key, task in demo.tasks.items() if task.pod is not None)
    return next((trouble for trouble in troubles if any(f" {word}:" in trouble for word in IMAGE_TROUBLE)), "")


def _ungated(demo: Demo) -> bool:
    return any(task.pod is not None and task.pod.barrier is Stage.ABSENT for task in demo.tasks.values())


def diagnosis(demo: Demo, target: Target, options: Options) -> Iterator[tuple[str, list[str]]]:
    """Give what helps to find out why it failed: titles with lines."""
    for key, task in demo.tasks.items():
        if task.pod is not None and task.pod.reason:
            yield f"{key}", [task.pod.reason]
        if task.barrier_log and task.passed is None:
            yield f"{key}, log of the barrier", list(task.barrier_log[-LOG_TAIL:])
        if task.log:
            yield f"{key}, log", list(task.log[-LOG_TAIL:])
    programs = demo.step("programs")
    if programs is None or programs.progress is Progress.PLANNED:
        return
    try:
        cluster = target.connect()
        if demo.applied is not None:
            yield (
                f"Events in the namespace {options.namespace}",
                deploy.pod_events(cluster, options.namespace, LOG_TAIL),
            )
        for manifest in manifests.programs(target.naming):
            if manifest["kind"] == "Deployment":
                for pod in deploy.pods_of(cluster, manifest)[-1:]:
                    yield f"log of {pod['metadata']['name']}", deploy.log_tail(cluster, pod, LOG_TAIL)
    except DemoError as error:
        yield "the cluster", [str(error)]
