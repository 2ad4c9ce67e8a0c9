"""Frameworks of one TaskRole whose Pods a real scheduler places in groups, on the nodes of one test."""

from dataclasses import dataclass
from typing import Any

from localcluster.client import Json
from localcluster.cluster.kwok import RUN_SECONDS
from testkit.frameworks import Frameworks, role
from testkit.waiting import eventually

CPU = "300"
"""Of a Pod: a simulated node has 1,000, so three of them have room on it."""


@dataclass
class Gangs(Frameworks):
    """The Frameworks of the test's namespace."""

    scheduler: str = "kubernetes"
    """Whose groups they have."""
    scheduler_name: str = ""
    """Of their Pods."""
    priorities: bool = True
    """Whether a group has a priority, beside its Pods."""
    tells: str = "the scheduler has found no place for {number} of {number}"
    """What `why` says of a gang that waits."""

    def workers(self, number: int, *, priority: str = "low", **more: Any) -> Json:
        """A TaskRole of so many Tasks, each of which runs for long."""
        spec = {
            "nodeSelector": {"pool": self.namespace[:60]},
            "priorityClassName": priority,
            "containers": [{"name": "main", "image": "none", "resources": {"requests": {"cpu": CPU}}}],
        }
        spec |= {"schedulerName": self.scheduler_name} if self.scheduler_name else {}
        return role("worker", number, pod={"metadata": {"annotations": {RUN_SECONDS: "1000"}}, "spec": spec}, **more)

    def start(self, name: str, number: int, *, priority: str = "low", **more: Any) -> None:
        """Create a gang whose Pods are placed together."""
        asked = {"scheduler": self.scheduler} | ({"priorityClassName": priority} if self.priorities else {})
        asked |= more.pop("asked", {})
        self.create(name, self.workers(number, priority=priority, **more), gangScheduling=asked)

    def nodes_of(self, name: str) -> list[str]:
        """The nodes of the Pods of a Framework that have one."""
        pods = [pod for pod in self.pods().values() if pod["metadata"]["labels"]["FC_FRAMEWORK_NAME"] == name]
        return [pod["spec"]["nodeName"] for pod in pods if "nodeName" in pod["spec"]]

    def runs_whole(self, name: str, number: int) -> None:
        """Wait until so many Pods of a Framework, and no others, have nodes and run."""
        eventually(lambda: self.assert_whole(name, number), 60)

    def assert_whole(self, name: str, number: int) -> None:
        """So many Pods of a Framework have nodes and run."""
        assert self.status(name)["ready"] == f"{number}/{number}"
        assert len(self.nodes_of(name)) == number

    def waits(self, name: str, number: int) -> None:
        """Wait until all Pods of a gang are there, and it is said that there is no place for them."""

        def said() -> None:
            pods = [pod for one, pod in self.pods().items() if one.startswith(f"{name}-")]
            assert len(pods) == number
            assert not self.nodes_of(name)
            if self.tells:
                condition = self.conditions(name)["GangScheduled"]
                assert (condition["status"], condition["message"].startswith(self.told(number))) == ("False", True)
            else:
                reasons = {one.get("reason") for pod in pods for one in pod["status"].get("conditions", [])}
                assert "Unschedulable" in reasons

        eventually(said, 60)

    def told(self, number: int) -> str:
        """What is told of so many that wait."""
        return self.tells.format(number=number)
