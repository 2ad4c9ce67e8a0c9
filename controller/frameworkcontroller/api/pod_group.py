"""Groups of Pods that a scheduler places together: what a Framework asks for, and what is read of a group.

Each scheduler has a kind of its own for them, a row of `KINDS`. Only the fields that decide anything are read.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from frameworkcontroller.api.meta import Companion, Condition, Conditions, Wire
from frameworkcontroller.api.pod import Pod

KUBERNETES: Final = "kubernetes"
VOLCANO: Final = "volcano"
COSCHEDULING: Final = "coscheduling"
NONE: Final = "none"
PER_ROLE: Final = "TaskRole"
SINGLE: Final = "Single"

SCHEDULED: Final = "PodGroupInitiallyScheduled"
DISRUPTED: Final = "DisruptionTarget"
"""The condition of a Pod that goes for others, which the scheduler sets with the reason `BY_SCHEDULER`."""
BY_SCHEDULER: Final = "PreemptionByScheduler"


class GangScheduling(Wire, frozen=True, omit_defaults=True):
    """`spec.gangScheduling`: whose groups the Pods are in, and what is asked of the scheduler.

    Attributes:
        scheduler: `kubernetes`, `volcano` or `coscheduling`; `none` for no groups.
        group_per: `Attempt`: one group, and one for each TaskRole with dependencies. `TaskRole`: one for each.
        topology_key: All Pods of a group get nodes that have one value of this label.
        priority_class_name: Of the groups, by which one takes the place of another.
        disruption_mode: Whether more important Pods take the place of a group (`All`) or of single Pods (`Single`).
        queue: Of Volcano, in which the groups are.
    """

    scheduler: str
    group_per: str = "Attempt"
    topology_key: str = ""
    priority_class_name: str = ""
    disruption_mode: str = "All"
    queue: str = ""


class _Gang(Wire, frozen=True):
    min_count: int = 0


class _Policy(Wire, frozen=True):
    gang: _Gang = _Gang()


class _Spec(Wire, frozen=True):
    scheduling_policy: _Policy = _Policy()
    min_member: int = 0


class _Status(Conditions, frozen=True):
    phase: str = ""


class PodGroup(Companion, frozen=True):
    """The group of some or all Pods of an attempt, of any of `KINDS`."""

    spec: _Spec = _Spec()
    status: _Status = _Status()

    @property
    def min_count(self) -> int:
        """So many Pods are placed together."""
        return self.spec.min_member or self.spec.scheduling_policy.gang.min_count

    @property
    def seconds(self) -> float | None:
        """From its creation until the scheduler had a place for it, None as long as it has not."""
        found, begun = self.condition(SCHEDULED), self.metadata.creation_timestamp
        since = None if found is None or found.status != "True" else found.last_transition_time
        return None if since is None or begun is None else (since - begun).total_seconds()


class Kind(NamedTuple):
    """The kind of group of one scheduler."""

    api_version: str
    gate: str
    """What the scheduler needs to know it."""
    spec: Callable[[GangScheduling, int], dict[str, Any]]
    """Return the spec of a group of so many Pods."""
    membership: Callable[[str], dict[str, Any]]
    """Return what the Pods of a group of this name have: labels, annotations, and fields of their spec."""
    said: Callable[[PodGroup], Condition | None] | None = None
    """Return what the scheduler says of a group, as a condition of the type `SCHEDULED`; None: it says nothing."""
    lacks: tuple[str, ...] = ()
    """Fields of `GangScheduling` that its groups cannot express."""


def _kubernetes(asked: GangScheduling, min_count: int) -> dict[str, Any]:
    spec: dict[str, Any] = {"schedulingPolicy": {"gang": {"minCount": min_count}}}
    if asked.topology_key:
        spec["schedulingConstraints"] = {"topology": [{"key": asked.topology_key}]}
    if asked.priority_class_name:
        spec["priorityClassName"] = asked.priority_class_name
    return spec | {"disruptionMode": {asked.disruption_mode.lower(): {}}}


def _volcano(asked: GangScheduling, min_count: int) -> dict[str, Any]:
    more = {"queue": asked.queue, "priorityClassName": asked.priority_class_name}
    return {"minMember": min_count} | {name: value for name, value in more.items() if value}


def _said_by_volcano(found: PodGroup) -> Condition | None:
    """Of its conditions neither ends the other; which of them holds is in the phase."""
    placed, refused = found.condition("Scheduled"), found.condition("Unschedulable")
    said, status = (placed, "True") if found.status.phase in {"Running", "Completed"} else (refused, "False")
    return None if said is None else replace(said, type=SCHEDULED, status=status)


KINDS: Final = {
    KUBERNETES: Kind(
        "scheduling.k8s.io/v1beta1",
        "the feature gate GenericWorkload of kube-scheduler",
        _kubernetes,
        lambda name: {"schedulingGroup": {"podGroupName": name}},
        lambda found: found.condition(SCHEDULED),
        ("queue",),
    ),
    VOLCANO: Kind(
        "scheduling.volcano.sh/v1beta1",
        "Pods whose schedulerName is that of Volcano",
        _volcano,
        lambda name: {"annotations": {"scheduling.k8s.io/group-name": name}, "schedulerName": VOLCANO},
        _said_by_volcano,
        ("topologyKey",),
    ),
    COSCHEDULING: Kind(
        "scheduling.x-k8s.io/v1alpha1",
        "the plugin Coscheduling",
        lambda _, min_count: {"minMember": min_count},
        lambda name: {"labels": {"scheduling.x-k8s.io/pod-group": name}},
        # Its phase is written by a controller beside the scheduler; why Pods wait is said of them alone.
        lacks=("topologyKey", "priorityClassName", "queue"),
    ),
}
PLURAL: Final = "podgroups"
"""Of each of them."""


def preemption(pod: Pod, asked: GangScheduling) -> str:
    """Return for whom the scheduler takes the place of a Pod's whole group, "" if it does not."""
    if asked.disruption_mode == SINGLE:
        return ""
    found = (one.message for one in pod.status.conditions if (one.type, one.reason) == (DISRUPTED, BY_SCHEDULER))
    return next(found, "")


GROUP_DECODER: Final = msgspec.json.Decoder(PodGroup)
