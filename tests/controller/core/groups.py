"""A scheduler in a world: it gives the Pods of a group their nodes together, when there is room for all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from frameworkcontroller.api import names
from frameworkcontroller.api.pod import PodCondition
from frameworkcontroller.api.pod_group import BY_SCHEDULER, DISRUPTED, GROUP_DECODER, KINDS, SCHEDULED, PodGroup
from frameworkcontroller.core.effects import CreateCompanion, Done, Missing, NameTaken, PatchCompanion, Refused

if TYPE_CHECKING:
    from frameworkcontroller.api.pod import Pod
    from frameworkcontroller.core.effects import CompanionEffect, Outcome
    from tests.controller.core.world import World

VOLCANO_GROUP = "scheduling.k8s.io/group-name"


class Groups:
    """The groups of a world's Framework."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.documents: dict[str, dict[str, Any]] = {}
        self.members: dict[str, str] = {}
        """The group of each Pod, by UID."""
        self.known = True
        """Whether the API server has the kind."""
        self.refusal = ""
        self.room = 100
        """Pods that may have a node."""
        self.is_gated = False
        """Whether the scheduler takes no notice of groups."""
        self.made: list[tuple[str, int]] = []
        """Names and sizes of all that were created."""
        self._preempted: set[str] = set()
        self._going: set[str] = set()
        self._version = 1

    @property
    def seen(self) -> dict[str, PodGroup]:
        """What the cache has of them."""
        asked = self._world.stored and self._world.status.attempt_status.gang_scheduling
        says = not asked or KINDS[asked.scheduler].said is not None
        return {
            name: found if says else replace(found, status=replace(found.status, conditions=()))
            for name, found in self._known.items()
            if names.FRAMEWORK_NAME in self.documents[name]["metadata"]["labels"]
        }

    @property
    def _known(self) -> dict[str, PodGroup]:
        """What the scheduler has of them."""
        return {name: GROUP_DECODER.decode(msgspec.json.encode(one)) for name, one in self.documents.items()}

    # --- the API server ----------------------------------------------------------------------------------------------

    def perform(self, effect: CompanionEffect) -> Outcome:
        if self.refusal:
            return Refused(422, self.refusal)
        if isinstance(effect, CreateCompanion):
            if effect.name in self.documents:
                found = self.documents[effect.name]["metadata"]
                if found["ownerReferences"][0]["uid"] != effect.config_map_uid:
                    return NameTaken("the name is in use")
                found["labels"] = {names.FRAMEWORK_NAME: "fw"}
                return Done()
            owner = {"kind": "ConfigMap", "name": "fw-attempt", "uid": effect.config_map_uid, "controller": True}
            metadata = {"name": effect.name, "namespace": "ns", "labels": {names.FRAMEWORK_NAME: "fw"}}
            metadata |= {"uid": self._world.uid(), "ownerReferences": [owner], "creationTimestamp": self._world.stamp}
            self.documents[effect.name] = {"metadata": metadata, "spec": effect.spec, "status": {"conditions": []}}
            self._change(effect.name)
            self.made.append((effect.name, self._known[effect.name].min_count))
            return Done(metadata["uid"])
        if effect.name not in self.documents or self.documents[effect.name]["metadata"]["uid"] != effect.uid:
            return Missing()
        assert isinstance(effect, PatchCompanion)
        self.documents[effect.name]["spec"] |= effect.patch["spec"]
        self._change(effect.name)
        return Done()

    def _change(self, name: str) -> None:
        self._version += 1
        self.documents[name]["metadata"]["resourceVersion"] = str(self._version)

    def take_in(self, pod: dict[str, Any]) -> None:
        """A Pod is created."""
        asked = self._world.status.attempt_status.gang_scheduling
        if not asked:
            return
        group = _group_of(pod)
        assert group in self.documents, f"{group} is not there before its Pods"
        owner, mine = self.documents[group]["metadata"]["ownerReferences"][0], pod["metadata"]["ownerReferences"][-1]
        assert owner["uid"] == mine["uid"], "it is the group of another attempt"
        self.members[pod["metadata"]["uid"]] = group

    # --- the scheduler -----------------------------------------------------------------------------------------------

    def holds(self, uid: str) -> bool:
        """Whether a Pod waits for the others of its group."""
        group = self.members.get(uid)
        return group is not None and not self.is_gated and not self.is_true(group, SCHEDULED)

    def is_true(self, group: str, kind: str) -> bool:
        found = self._known[group].condition(kind) if group in self._known else None
        return found is not None and found.status == "True"

    def live(self) -> bool:
        """The scheduler looks at each group once; whether anything has changed."""
        before = self._version
        for name, seen in self._known.items():
            pods = self._members(name)
            if name in self._preempted:
                for pod in pods if name in self._going else ():
                    self._world.terminate(pod.metadata.name)
                self._going.add(name)
            if self.is_gated or self.is_true(name, SCHEDULED) or len(pods) < seen.min_count:
                continue
            others = len(self._world.running)
            if others + seen.min_count <= self.room:
                self.say(name, SCHEDULED, "True", "Scheduled", "")
            else:
                self.say(name, SCHEDULED, "False", "Unschedulable", f"{self.room} nodes are free")
        return self._version != before

    def say(self, name: str, kind: str, status: str, reason: str, message: str) -> None:
        """Set a condition."""
        new = {"type": kind, "status": status, "reason": reason, "message": message}
        kept = [one for one in self.documents[name]["status"]["conditions"] if one["type"] != kind]
        before = [one for one in self.documents[name]["status"]["conditions"] if one["type"] == kind]
        if [one | {"lastTransitionTime": None} for one in before] != [new | {"lastTransitionTime": None}]:
            self.documents[name]["status"]["conditions"] = [*kept, new | {"lastTransitionTime": self._world.stamp}]
            self._change(name)

    def preempt(self, name: str) -> None:
        """A more important group takes the place of this one: that is said first, and then its Pods go."""
        self._preempted.add(name)
        target = PodCondition(DISRUPTED, "True", BY_SCHEDULER, "preempted by high")
        for pod in self._members(name):
            status = replace(pod.status, conditions=(*pod.status.conditions, target))
            self._world.pods[pod.metadata.name] = replace(pod, status=status)

    def _members(self, name: str) -> list[Pod]:
        return [pod for pod in self._world.pods.values() if self.members.get(pod.metadata.uid) == name]

    def collect(self) -> bool:
        """The garbage collector and the finalizer of groups: one stays as long as its Pods."""
        owner, found = self._world.config_map, False
        uids = {pod.metadata.uid for pod in self._world.pods.values()}
        for name, one in list(self.documents.items()):
            is_orphan = owner is None or one["metadata"]["ownerReferences"][0]["uid"] != owner.metadata.uid
            if is_orphan and not any(self.members.get(uid) == name for uid in uids):
                del self.documents[name]
                found = True
        return found


def _group_of(pod: dict[str, Any]) -> str:
    """The group of a Pod as each scheduler reads it."""
    of_kubernetes = pod["spec"].get("schedulingGroup", {}).get("podGroupName")
    of_volcano = pod["spec"].get("schedulerName") == "volcano" and pod["metadata"]["annotations"][VOLCANO_GROUP]
    return str(of_kubernetes or of_volcano or pod["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"])
