"""Frameworks in queues of Kueue, as tests look at them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from frameworkcontroller.api import names
from frameworkcontroller.api.workload import PRIORITY_LABEL, QUEUE_LABEL
from localcluster.client import ApiStatusError
from testkit import kueue
from testkit.waiting import eventually

if TYPE_CHECKING:
    from localcluster.client import Json, RawClient
    from testkit.frameworks import Frameworks


@dataclass
class Queued:
    """The Frameworks of a namespace and their Workloads."""

    raw: RawClient
    frameworks: Frameworks

    def create(self, name: str, *roles: Json, queue: str = "main", priority: str = "", **spec: object) -> Json:
        """Create a Framework with the label of a queue."""
        labels = {QUEUE_LABEL: queue} | ({PRIORITY_LABEL: priority} if priority else {})
        body = {
            "apiVersion": names.API_VERSION,
            "kind": names.KIND,
            "metadata": {"name": name, "labels": labels},
            "spec": {"executionType": "Start", "taskRoles": list(roles), **spec},
        }
        return self.raw.create(self.frameworks.path, body)

    def workload(self, name: str) -> Json | None:
        """Return the Workload of a Framework, None if there is none."""
        uid = self.raw.get(f"{self.frameworks.path}/{name}")["metadata"]["uid"]
        path = f"{kueue.API}/namespaces/{self.frameworks.namespace}/workloads/{names.workload_name(name, uid)}"
        try:
            return self.raw.get(path)
        except ApiStatusError as error:
            if error.status != 404:
                raise
            return None

    def path_of(self, workload: Json) -> str:
        """Return the path of a Workload."""
        return f"{kueue.API}/namespaces/{self.frameworks.namespace}/workloads/{workload['metadata']['name']}"

    def conditions(self, name: str) -> dict[str, Json]:
        """Return the conditions of a Framework's Workload by type; AssertionError if there is none."""
        found = self.workload(name)
        assert found is not None, f"{name} has no Workload"
        return {one["type"]: one for one in found.get("status", {}).get("conditions") or ()}

    def expect(self, name: str, timeout: float = 30, **conditions: bool) -> dict[str, Json]:
        """Wait until these conditions of the Workload have these values; one that is absent is False."""

        def check() -> dict[str, Json]:
            found = self.conditions(name)
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
