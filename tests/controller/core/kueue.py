"""Kueue in a world: it admits the Workload, or evicts it, when a script lets it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from frameworkcontroller.api import names
from frameworkcontroller.api.workload import FLAVOR_DECODER, WORKLOAD_DECODER, Flavor, Workload
from frameworkcontroller.core.effects import CreateCompanion, DeleteCompanion, Done, Missing, NameTaken, PatchCompanion

if TYPE_CHECKING:
    from frameworkcontroller.core.effects import CompanionEffect, Outcome
    from tests.controller.core.world import World

FLAVOR = {"metadata": {"name": "pool", "uid": "f", "resourceVersion": "1"}, "spec": {"nodeLabels": {"pool": "a"}}}


class Kueue:
    """The Workload of a world's Framework, and what Kueue does to it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.document: dict[str, Any] | None = None
        self.known = True
        """Whether its definitions are there."""
        self.capacity = world.plan.capacity
        """Pods that may be admitted."""
        self.flavor: dict[str, Any] = FLAVOR
        self.checks: list[dict[str, Any]] = []
        self.admissions = self.made = self.patched = 0
        self.finished: list[str] = []
        """The reasons of all Workloads that were finished."""
        self._version = 1

    # --- what is seen ------------------------------------------------------------------------------------------------

    @property
    def workload(self) -> Workload | None:
        return None if self.document is None else WORKLOAD_DECODER.decode(msgspec.json.encode(self.document))

    def flavor_of(self, name: str) -> Flavor | None:
        return FLAVOR_DECODER.decode(msgspec.json.encode(self.flavor)) if name == "pool" else None

    def is_true(self, kind: str) -> bool:
        workload = self.workload
        return workload is not None and workload.is_true(kind)

    # --- the API server ----------------------------------------------------------------------------------------------

    def perform(self, effect: CompanionEffect) -> Outcome:
        if isinstance(effect, CreateCompanion):
            if self.document is not None:
                return NameTaken("the name is in use")
            self.made += 1
            owner = {"kind": "Framework", "name": "fw", "uid": "framework-uid", "controller": True}
            labels = {names.FRAMEWORK_NAME: "fw"}
            metadata = {"name": effect.name, "namespace": "ns", "labels": labels, "ownerReferences": [owner]}
            spec = msgspec.json.decode(msgspec.json.encode(effect.spec))
            assert effect.priority is not None
            if effect.priority[0]:
                spec["priorityClassRef"] = {"kind": "WorkloadPriorityClass", "name": effect.priority[0]}
            self.document = {"metadata": metadata | {"uid": self._world.uid()}, "spec": spec, "status": {}}
            self._change()
            return Done(self.document["metadata"]["uid"])
        if self.document is None or self.document["metadata"]["uid"] != effect.uid:
            return Missing()
        if isinstance(effect, DeleteCompanion):
            self.delete()
            return Done()
        return self._patch(effect)

    def _patch(self, effect: PatchCompanion) -> Outcome:
        assert self.document is not None
        if self.document["metadata"]["resourceVersion"] != effect.resource_version:
            return Missing()
        self.patched += 1
        patch = msgspec.json.decode(msgspec.json.encode(effect.patch["status"]))
        reserved, known = self.is_true("QuotaReserved"), self._reclaimed
        if "admission" in patch:
            ours = [name for name, pod in self._world.pods.items() if pod.metadata.controller is not None]
            assert not ours or self._world.interfered, f"the quota is given back while there are {ours}"
        self.document["status"] |= patch
        if reserved and self.is_true("QuotaReserved"):
            assert all(self._reclaimed.get(name, 0) >= number for name, number in known.items()), "reclaimed Pods fall"
        counts = {one["name"]: one["count"] for one in self.document["spec"]["podSets"]}
        assert all(number <= counts[name] for name, number in self._reclaimed.items())
        if (found := self.workload) is not None and found.is_true("Finished"):
            condition = found.condition("Finished")
            assert condition is not None
            self.finished.append(condition.reason)
        self._change()
        return Done()

    @property
    def _reclaimed(self) -> dict[str, int]:
        assert self.document is not None
        return {one["name"]: one["count"] for one in self.document["status"].get("reclaimablePods") or ()}

    def _change(self) -> None:
        assert self.document is not None
        self._version += 1
        self.document["metadata"]["resourceVersion"] = str(self._version)

    def delete(self) -> None:
        """Somebody deletes the Workload."""
        self.document = None

    # --- Kueue -------------------------------------------------------------------------------------------------------

    def live(self) -> bool:
        """Admit what may run, and report whether that is news."""
        workload = self.workload
        if workload is None or self.document is None or any(map(self.is_true, ("Finished", "QuotaReserved"))):
            return False
        sets = {one["name"]: one["count"] for one in self.document["spec"]["podSets"]}
        if sum(sets.values()) > self.capacity:
            return False
        self.admissions += 1
        assignments = [{"name": name, "flavors": {"cpu": "pool"}, "count": number} for name, number in sets.items()]
        self.document["status"]["admission"] = {"clusterQueue": "q", "podSetAssignments": assignments}
        self.document["status"]["admissionChecks"] = self.checks
        self._set({"QuotaReserved": ("True", "QuotaReserved"), "Admitted": ("True", "Admitted")})
        self._set({"Evicted": ("False", "QuotaReserved")})
        return True

    def evict(self, reason: str = "Preempted") -> None:
        """Take the quota back."""
        self._set({"Evicted": ("True", reason)})

    def finish(self) -> None:
        """Somebody says that it needs nothing any more."""
        self._set({"Finished": ("True", "ByOthers")})

    def _set(self, conditions: dict[str, tuple[str, str]]) -> None:
        assert self.document is not None
        kept = {one["type"]: one for one in self.document["status"].get("conditions") or ()}
        for kind, (status, reason) in conditions.items():
            kept[kind] = {"type": kind, "status": status, "reason": reason, "message": f"{kind} by a test"}
        self.document["status"]["conditions"] = list(kept.values())
        self._change()
