"""The steps of the demo: prepare a cluster, install the programs, apply the Framework, watch it until it is Completed.

`__main__` calls `run`, and `diagnosis` after a failure.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from frameworkdemo import deploy, manifests
from frameworkdemo.errors import DemoError
from frameworkdemo.picture import events
from frameworkdemo.picture.objects import ContainerState, expected_tasks
from frameworkdemo.picture.state import StepStatus
from frameworkdemo.picture.text import describe_outcome, describe_task
from frameworkdemo.progress import part, step
from frameworkdemo.watch import Watcher

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from frameworkdemo.cluster import Cluster
    from frameworkdemo.picture.state import RunState
    from frameworkdemo.picture.store import RunStore
    from frameworkdemo.target import Target

NAMESPACE = "demo"
LOGS_SETTLE_SECONDS = 1.0
LOG_TAIL = 25
IMAGE_ERRORS = ("ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName")
IMAGE_SECONDS = 20.0
"""The time for a missing image to be pulled after all, because a registry may fail once."""


@dataclass(frozen=True)
class Options:
    """The options of the command line.

    Attributes:
        namespace: The namespace of the Framework.
        gang_seconds: The time that the Framework may take from apply to Completed.
        framework: The file of the Framework's manifest.
    """

    namespace: str = NAMESPACE
    gang_seconds: float = 300.0
    framework: Path = manifests.FRAMEWORK


def run(store: RunStore, target: Target, options: Options) -> None:
    """Run the demo until the Framework is Completed.

    Raises:
        DemoError: The Framework did not succeed, or a step before failed; the text says why.
    """
    store.post(events.RunPlanned(store.now(), (*target.steps, "programs", "gang")))
    cluster = install(store, target)
    with step(store.post, "gang"):
        _run_gang(store, cluster, target, options)


def install(store: RunStore, target: Target) -> Cluster:
    """Make a cluster ready, install the programs in it, and return access to it.

    Raises:
        DemoError: A step failed; the text says why.
    """
    target.prepare(store.post)
    cluster = target.connect()
    with step(store.post, "programs"), part(store.post, "controller, injector") as report:
        deploy.deploy(cluster, manifests.programs(target.image_names, target.revision), report)
    return cluster


def _run_gang(store: RunStore, cluster: Cluster, target: Target, options: Options) -> None:
    framework = manifests.framework(target.image_names, options.framework)
    name = framework["metadata"]["name"]
    cluster.apply([manifests.namespace(options.namespace)])
    with part(store.post, "remove the previous run") as report:
        deploy.remove(cluster, [framework], options.namespace, report)
    watcher = Watcher(cluster, options.namespace, name, store.post)
    store.post(events.FrameworkApplied(store.now(), name, expected_tasks(framework)))
    watcher.start()
    try:
        cluster.apply([framework], options.namespace)
        _wait_for_end(store, options.gang_seconds)
        # The last lines of a log may arrive after the Framework is Completed.
        time.sleep(LOGS_SETTLE_SECONDS)
    finally:
        watcher.stop()
    state = store.state
    if _lacks_barrier(state):
        raise DemoError(
            "the Pods have the label, but no barrier was injected: see the log of the injector and its webhook"
        )
    if not state.finished:
        states = ", ".join(f"{key} {describe_task(task)}" for key, task in state.tasks.items())
        raise DemoError(
            f"{name} was not Completed within {options.gang_seconds:.0f} s: {describe_outcome(state)}; {states}"
        )
    if not state.succeeded:
        completion = state.framework.completion if state.framework else None
        raise DemoError(f"{name}: {describe_outcome(state)}: {completion.diagnostics if completion else ''}")


def _wait_for_end(store: RunStore, seconds: float) -> None:
    """Wait until the Framework is Completed or a Pod lacks its barrier, at most `seconds`.

    Raises:
        DemoError: The image of a Pod cannot be pulled.
    """
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        store.wait(lambda state: state.finished or _lacks_barrier(state) or bool(_image_error(state)), left)
        if store.state.finished or _lacks_barrier(store.state):
            return
        if not store.wait(lambda state: not _image_error(state), min(left, IMAGE_SECONDS)):
            raise DemoError(
                f"{_image_error(store.state)}\nCheck that the nodes have the project's images, or can pull them."
            )


def _image_error(state: RunState) -> str:
    """Return the Pod whose image cannot be pulled, and why; empty if there is none."""
    reasons = (f"{key}: {task.pod.reason}" for key, task in state.tasks.items() if task.pod is not None)
    return next((reason for reason in reasons if any(f" {error}:" in reason for error in IMAGE_ERRORS)), "")


def _lacks_barrier(state: RunState) -> bool:
    return any(task.pod is not None and task.pod.barrier is ContainerState.ABSENT for task in state.tasks.values())


def diagnosis(state: RunState, target: Target, options: Options) -> Iterator[tuple[str, list[str]]]:
    """Yield titles and lines that help a person to find the cause of a failure."""
    for key, task in state.tasks.items():
        if task.pod is not None and task.pod.reason:
            yield f"{key}", [task.pod.reason]
        if task.barrier_log and task.barrier_passed is None:
            yield f"{key}, log of the barrier", list(task.barrier_log[-LOG_TAIL:])
        if task.log:
            yield f"{key}, log", list(task.log[-LOG_TAIL:])
    programs = state.step("programs")
    if programs is None or programs.status is StepStatus.PLANNED:
        return
    try:
        cluster = target.connect()
        if state.applied is not None:
            yield (
                f"Events in the namespace {options.namespace}",
                deploy.pod_events(cluster, options.namespace, LOG_TAIL),
            )
        for manifest in manifests.programs(target.image_names):
            if manifest["kind"] == "Deployment":
                for pod in deploy.pods_of(cluster, manifest)[-1:]:
                    yield f"log of {pod['metadata']['name']}", deploy.log_tail(cluster, pod, LOG_TAIL)
    except DemoError as error:
        yield "the cluster", [str(error)]
