"""A driver of the Pods of Frameworks on a control plane without nodes, for the controller in `tests/apiserver`."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from frameworkcontroller.api import names
from localcluster.client import Json
from testkit.frameworks import Frameworks
from tests.support.background import in_background
from tests.support.beside.kubelet import Kubelet, ignore_vanished


@dataclass
class Player:
    """Runs and ends the Pods of a namespace according to a plan, which a test may change at any time.

    Attributes:
        kubelet: The fake kubelet that writes the statuses.
        frameworks: The Frameworks of the namespace.
        plan: For each Task, by `<role>-<index>`, the ends of its attempts: an exit code, or "stay" for a Pod that runs
            on. The last entry holds for all further attempts; a Task without a plan succeeds.
    """

    kubelet: Kubelet
    frameworks: Frameworks
    plan: dict[str, list[int | str]] = field(default_factory=dict)

    @contextlib.contextmanager
    def playing(self) -> Iterator[None]:
        """Drive the Pods in the background until the block ends; an error there is raised at the end."""
        with in_background(self._play, every=0.03):
            yield

    def _play(self) -> None:
        for pod in self.frameworks.pods().values():
            self._steer(pod)

    def _steer(self, pod: Json) -> None:
        annotations = pod["metadata"].get("annotations", {})
        if names.TASK_ATTEMPT_ID not in annotations or pod["spec"].get("schedulingGates"):
            return
        ends = self.plan.get(f"{annotations[names.TASKROLE_NAME]}-{annotations[names.TASK_INDEX]}", [0])
        attempts = int(annotations[names.FRAMEWORK_ATTEMPT_ID]) + int(annotations[names.TASK_ATTEMPT_ID])
        end = ends[min(attempts, len(ends) - 1)]
        phase = pod["status"].get("phase")
        with ignore_vanished():
            if pod["metadata"].get("deletionTimestamp"):
                self.kubelet.finish_deletion(pod)
            elif phase == "Pending":
                self.kubelet.run(pod)
            elif phase == "Running" and isinstance(end, int):
                if end:
                    self.kubelet.fail(pod, end)
                else:
                    self.kubelet.succeed(pod)
