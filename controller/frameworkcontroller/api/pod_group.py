"""Groups of Pods that a scheduler places together: what a Framework asks for, and what is read of a group.

Each scheduler has a kind of its own for them (`KINDS`). Only the fields that decide anything are read.
"""

from datetime import datetime
from typing import Any, Final, NamedTuple

import msgspec

from frameworkcontroller.api.meta import Meta, Wire
from frameworkcontroller.api.pod import Pod

KUBERNETES: Final = "kubernetes"
NONE: Final = "none"
PER_ROLE: Final = "TaskRole"
SINGLE: Final = "Single"

SCHEDULED: Final = "PodGroupInitiallyScheduled"
DISRUPTED: Final = "DisruptionTarget"
"""The condition of a Pod that goes for others, which the scheduler sets with the reason `BY_SCHEDULER`."""
BY_SCHEDULER: Final = "PreemptionByScheduler"


class GangScheduling(Wire, frozen=True, omit_defaults=True):
    """`spec.gangScheduling`: whose groups the Pods are in, and what is asked of the scheduler."""

    scheduler: str
    """One of `KINDS`, or `none`."""
    group_per: str = "Attempt"
    topology_key: str = ""
    """All Pods of a group get nodes that have one value of this label."""
    priority_class_name: str = ""
    disruption_mode: str = "All"
    """Whether Pods of more important groups take the place of `All` of its Pods, or of a `Single` one."""


class Kind(NamedTuple):
    """The kind of group of one scheduler."""

    api_version: str
    plural: str
    gate: str
    """What the scheduler needs to know it."""


KINDS: Final = {
    KUBERNETES: Kind("scheduling.k8s.io/v1beta1", "podgroups", "the feature gate GenericWorkload of kube-scheduler")
}


class GroupCondition(Wire, frozen=True):
    """What the scheduler says of a group."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None


class _Gang(Wire, frozen=True):
    min_count: int = 0


class _Policy(Wire, frozen=True):
    gang: _Gang = _Gang()


class _Spec(Wire, frozen=True):
    scheduling_policy: _Policy = _Policy()


class _Status(Wire, frozen=True):
    conditions: tuple[GroupCondition, ...] = ()


class PodGroup(Wire, frozen=True):
    """The group of some or all Pods of an attempt."""

    metadata: Meta
    spec: _Spec = _Spec()
    status: _Status = _Status()

    @property
    def min_count(self) -> int:
        """So many Pods are placed together."""
        return self.spec.scheduling_policy.gang.min_count

    def condition(self, kind: str) -> GroupCondition | None:
        """Return the condition of this type."""
        return next((one for one in self.status.conditions if one.type == kind), None)

    @property
    def seconds(self) -> float | None:
        """From its creation until the scheduler had a place for it, None as long as it has not."""
        found, begun = self.condition(SCHEDULED), self.metadata.creation_timestamp
        since = None if found is None or found.status != "True" else found.last_transition_time
        return None if since is None or begun is None else (since - begun).total_seconds()


def preemption(pod: Pod, asked: GangScheduling) -> str:
    """Return for whom the scheduler takes the place of a Pod's whole group, "" if it does not."""
    if asked.disruption_mode == SINGLE:
        return ""
    found = (one.message for one in pod.status.conditions if (one.type, one.reason) == (DISRUPTED, BY_SCHEDULER))
    return next(found, "")


GROUP_DECODER: Final = msgspec.json.Decoder(PodGroup)


def group_spec(asked: GangScheduling, min_count: int) -> dict[str, Any]:
    """Return the spec of a group of so many Pods."""
    spec: dict[str, Any] = {"schedulingPolicy": {"gang": {"minCount": min_count}}}
    if asked.topology_key:
        spec["schedulingConstraints"] = {"topology": [{"key": asked.topology_key}]}
    if asked.priority_class_name:
        spec["priorityClassName"] = asked.priority_class_name
    return spec | {"disruptionMode": {asked.disruption_mode.lower(): {}}}


def membership(name: str) -> dict[str, Any]:
    """Return what the Pods of a group of this name have in their spec."""
    return {"schedulingGroup": {"podGroupName": name}}
