"""Frameworks in queues of Kueue, as tests look at them."""

from dataclasses import dataclass
from typing import Any

from frameworkcontroller.api import names
from frameworkcontroller.api.workload import PRIORITY_LABEL, QUEUE_LABEL
from localcluster.client import ApiStatusError, Json, RawClient
from testkit import kueue
from testkit.frameworks import Frameworks, framework, role
from testkit.waiting import eventually
from tests.support.beside.player import Player

CONFIG_MAPS = "ConfigMap.v1."
"""The kind of the controllers of our Pods, which Kueue leaves alone where it is told so."""


def pod(**spec: Any) -> Json:
    """A Pod template of one CPU."""
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    return {"spec": {"containers": [container], **spec}}


def workers(number: int, **more: Any) -> Json:
    """A TaskRole of so many Tasks of one CPU each."""
    return role("worker", number, **{"pod": pod(), **more})


def restarted(process: kueue.Kueue, *external: str, **changes: Any) -> None:
    """Run Kueue, which may run already, with these kinds of jobs of others and other changes of its configuration."""
    process.stop()
    if not process.is_installed:
        process.install()
    integrations = process.configuration()["integrations"] | {"externalFrameworks": list(external)}
    process.start(integrations=integrations, **changes)


@dataclass
class Queued:
    """The Frameworks of a namespace, their Workloads, and the driver of their Pods."""

    raw: RawClient
    frameworks: Frameworks
    player: Player

    def quota(self, **spec: Any) -> None:
        """Give the namespace a queue; see `kueue.quota`."""
        kueue.quota(self.raw, self.frameworks.namespace, **spec)

    def priorities(self) -> None:
        """Apply the priority classes low and high."""
        for name, value in (("low", 1), ("high", 100)):
            kueue.apply(self.raw, "WorkloadPriorityClass", name, {"value": value})

    def label(self, name: str, **labels: str | None) -> None:
        """Change labels of a Framework: `queue` and `priority`."""
        keys = {"queue": QUEUE_LABEL, "priority": PRIORITY_LABEL}
        changed = {keys[key]: value for key, value in labels.items()}
        self.raw.merge(f"{self.frameworks.path}/{name}", {"metadata": {"labels": changed}})

    def create(self, name: str, *roles: Json, queue: str = "main", priority: str = "", **spec: object) -> Json:
        """Create a Framework with the label of a queue."""
        labels = {QUEUE_LABEL: queue} | ({PRIORITY_LABEL: priority} if priority else {})
        body = framework(self.frameworks.namespace, name, *roles, executionType="Start", **spec)
        body["metadata"]["labels"] = labels
        return self.raw.create(self.frameworks.path, body)

    @property
    def workloads(self) -> str:
        """The path of the collection of Workloads."""
        return f"{kueue.API}/namespaces/{self.frameworks.namespace}/workloads"

    def path_of(self, name: str) -> str:
        """Return the path of a Framework's Workload."""
        return f"{self.workloads}/{names.workload_name(name, self.frameworks.get(name)['metadata']['uid'])}"

    def workload(self, name: str) -> Json:
        """Return the Workload of a Framework; AssertionError if there is none."""
        try:
            return self.raw.get(self.path_of(name))
        except ApiStatusError as error:
            if error.status == 404:
                raise AssertionError(f"{name} has no Workload") from error
            raise

    def listed(self) -> set[str]:
        """Return which Frameworks have Workloads."""
        return {one["metadata"]["labels"]["FC_FRAMEWORK_NAME"] for one in self.raw.get(self.workloads)["items"]}

    def expect(self, name: str, timeout: float = 30, **conditions: bool) -> dict[str, Json]:
        """Wait until these conditions of the Workload have these values, one that is absent False; return all."""

        def check() -> dict[str, Json]:
            status = self.workload(name).get("status", {})
            found = {one["type"]: one for one in status.get("conditions") or ()}
            values = {kind: found.get(kind, {}).get("status") == "True" for kind in conditions}
            assert values == conditions, found
            return found

        return eventually(check, timeout)

    def waits(self, name: str, reason: str = "WaitingForAdmission") -> str:
        """Wait until a Framework waits for this reason, and return the message."""

        def check() -> str:
            found = self.frameworks.conditions(name)["Suspended"]
            assert (found["status"], found["reason"]) == ("True", reason), found
            return str(found["message"])

        return eventually(check, 30)
