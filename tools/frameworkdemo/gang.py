"""The gang of the demo, by `frameworkctl`: submit and watch, and after a failure what tells why.

Meanwhile the demo follows the Framework itself. It looks for what would never end by itself, and keeps the ends of the
logs, because the Pods of a failed attempt are deleted.
"""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections import deque
from typing import TYPE_CHECKING

import yaml

from frameworkclient.cli.exits import ExitCode
from frameworkclient.pods import IMAGE_ERRORS
from frameworkcontroller.api.names import BARRIER_CONTAINER
from frameworkdemo import deploy, manifests
from frameworkdemo.commands import Frameworkctl
from frameworkdemo.errors import DemoError
from frameworkdemo.follow import Follower

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from frameworkclient import LogLine
    from frameworkclient.moments import Moment
    from frameworkclient.pods import TaskPod
    from frameworkdemo.cluster import Cluster, Manifest
    from frameworkdemo.progress import Steps

LOG_TAIL = 25
"""The last lines of each log that are kept."""
EVENTS = 25
IMAGE_SECONDS = 20.0
"""The time for a missing image to be pulled after all, because a registry may fail once."""
LOGS_SETTLE_SECONDS = 5.0
LOOK_SECONDS = 0.5


class Gang:
    """One run of a Framework.

    Args:
        cluster: The cluster.
        namespace: The namespace of the Framework; it exists when `run` is called.
        steps: Tells what happens.
        image_seconds: The time for a missing image to be pulled after all.
    """

    def __init__(self, cluster: Cluster, namespace: str, steps: Steps, image_seconds: float = IMAGE_SECONDS) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._steps = steps
        self._ctl = Frameworkctl(cluster, namespace, steps.write)
        self._record = Record(image_seconds)
        self._submitted = ""

    def run(self, framework: Manifest, file: Path, seconds: float) -> None:
        """Submit a Framework and watch it until it has succeeded.

        Args:
            framework: Its manifest.
            file: The file that it was read from; its images may have other names there.
            seconds: The limit from the submission to Completed.

        Raises:
            DemoError: It did not succeed; the text says why.
        """
        name = framework["metadata"]["name"]
        with self._steps.part("remove the previous run") as report:
            deploy.remove(self._cluster, [framework], self._namespace, report)
        self._ctl.show_environment()
        with Follower(self._cluster, self._namespace, self._record, self._steps.say) as follower:
            # Before the submission: nothing of its beginning is missed.
            follower.follow(name)
            is_as_in_file = manifests.documents(file) == [framework]
            source, text = (manifests.shown(file), "") if is_as_in_file else ("-", yaml.safe_dump(framework))
            if self._ctl.run("submit", "-f", source, text=text) != ExitCode.DONE:
                raise DemoError(f"{name} could not be submitted, see above")
            self._submitted = name
            code = self._watched(name, seconds)
            follower.settle(LOGS_SETTLE_SECONDS)
        if code == ExitCode.FAILED:
            raise DemoError(self._record.failure or f"{name} has failed, see above")
        if code != ExitCode.DONE:
            raise DemoError(f"`frameworkctl watch` has ended with exit code {code}, see above")

    def _watched(self, name: str, seconds: float) -> int:
        """Watch a Framework to its end and return the exit code."""
        deadline = time.monotonic() + seconds
        with self._ctl.running("watch", name) as watching:
            while watching.poll() is None:
                if problem := self._record.problem(time.monotonic()):
                    raise DemoError(problem)
                if time.monotonic() > deadline:
                    raise DemoError(f"{name} was not Completed within {seconds:.0f} s: {self._record.state}")
                with contextlib.suppress(subprocess.TimeoutExpired):
                    watching.wait(LOOK_SECONDS)
        return watching.returncode

    def diagnose(self) -> None:
        """Show what helps a person to find the cause of a failure; nothing before the submission."""
        if self._submitted:
            for command in ("why", "describe"):
                self._ctl.run(command, self._submitted)
            events = deploy.pod_events(self._cluster, self._namespace, EVENTS)
            self._steps.report(f"Events in the namespace {self._namespace}", events)
            for title, lines in self._record.logs():
                self._steps.report(title, lines)


class Record:
    """What a `Follower` has seen of a gang: its newest state, and the ends of its logs.

    Args:
        image_seconds: How long an image may be missing.

    Attributes:
        moment: The newest state; None before the first.
    """

    def __init__(self, image_seconds: float) -> None:
        self.moment: Moment | None = None
        self._image_seconds = image_seconds
        self._missing_since: float | None = None
        self._tails: dict[tuple[str, str], deque[str]] = {}

    def changed(self, moment: Moment) -> None:
        """Take the newest state."""
        self.moment = moment

    def logged(self, line: LogLine) -> None:
        """Keep a line, and of each log the last ones."""
        key = (line.source.task, line.source.container)
        self._tails.setdefault(key, deque(maxlen=LOG_TAIL)).append(line.text)

    def problem(self, now: float) -> str:
        """Return what holds the gang up for good; "" if nothing does.

        Args:
            now: Monotonic seconds.
        """
        pods = self.moment.pods.values() if self.moment else ()
        if any(pod.lacks_barrier for pod in pods):
            return "the Pods have the label, but no barrier was injected: see the log of the injector and its webhook"
        missing = missing_image(pods)
        if not missing:
            self._missing_since = None
        elif self._missing_since is None:
            self._missing_since = now
        if self._missing_since is None or now < self._missing_since + self._image_seconds:
            return ""
        return f"{missing}\nCheck that the nodes have the project's images, or can pull them."

    @property
    def state(self) -> str:
        """The states of the Framework and its Pods, on one line."""
        if self.moment is None:
            return "it was not seen"
        pods = [f"{pod.task} {pod.stage}" for pod in self.moment.pods.values()]
        return ", ".join([self.moment.view.state or "not seen by the controller", *pods])

    @property
    def failure(self) -> str:
        """How the Framework has failed; "" if it has not."""
        result = self.moment.view.result if self.moment else None
        if result is None or result.succeeded:
            return ""
        return f"{result.name}: Completed, {result.phrase} ({result.code}): {result.diagnostics}"

    def logs(self) -> Iterator[tuple[str, list[str]]]:
        """Yield a title and the last lines of each log; of a barrier only if its program has written nothing."""
        spoken = {task for task, container in self._tails if container != BARRIER_CONTAINER}
        for (task, container), lines in sorted(self._tails.items()):
            if container != BARRIER_CONTAINER or task not in spoken:
                yield f"{task}, log of {container}", list(lines)


def missing_image(pods: Iterable[TaskPod]) -> str:
    """Return the Task whose image cannot be pulled, and why; "" if there is none."""
    for pod in pods:
        if any(one.state.waiting is not None and one.state.waiting.reason in IMAGE_ERRORS for one in pod.statuses):
            return f"{pod.task}: {pod.reason}"
    return ""
