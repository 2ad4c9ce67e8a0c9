"""Which Pods stay when their Task ends, for their logs (docs/reference/framework-api.md, section 2). Pure.

A Pod that stays has ended, so that no guarantee speaks of it. It gets a label by which the caches do not show it any
more, and the Framework as its owner: for the state machines it is gone, and it goes with the Framework.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from frameworkcontroller.api import names
from frameworkcontroller.api.meta import Meta
from frameworkcontroller.api.pod import Pod
from frameworkcontroller.api.spec import RETAIN_ALWAYS, RETAIN_ON_FAILURE

PHASES: Final[Mapping[str, frozenset[str]]] = {
    RETAIN_ON_FAILURE: frozenset({"Failed"}),
    RETAIN_ALWAYS: frozenset({"Failed", "Succeeded"}),
}
"""The phases of the Pods that stay, by `retainPods`."""


def may_stay(retain_pods: str, pod: Pod) -> bool:
    """Report whether the user wants the Pod, and it has ended."""
    wanted = pod.status.phase in PHASES.get(retain_pods, ())
    return wanted and pod.metadata.deletion_timestamp is None and has_ended(pod)


def has_ended(pod: Pod) -> bool:
    """Report whether the kubelet of the Pod has said that nothing of it runs any more, nor will.

    The phase alone does not say that: the control plane sets it, too, for a Pod whose node is lost.
    """
    status = pod.status
    if status.phase not in PHASES[RETAIN_ALWAYS]:
        return False
    if any(one.state.running is not None for one in (*status.init_container_statuses, *status.container_statuses)):
        return False
    never_began = _failed_before_its_application(pod)
    containers = status.container_statuses
    return bool(containers) and all(one.state.terminated is not None or never_began for one in containers)


def ended_at(pod: Pod | None) -> datetime | None:
    """Return when the last container has ended, by the clock of the Pod's node; None if no container has."""
    containers = () if pod is None else (*pod.status.init_container_statuses, *pod.status.container_statuses)
    ends = (one.state.terminated.finished_at for one in containers if one.state.terminated is not None)
    return max((end for end in ends if end is not None), default=None)


def _failed_before_its_application(pod: Pod) -> bool:
    """Report whether an init container has failed for good, so that the containers after it stay `waiting`."""
    sidecars = pod.spec.sidecars
    ends = (one.state.terminated for one in pod.status.init_container_statuses if one.name not in sidecars)
    return pod.spec.restart_policy == "Never" and any(end is not None and end.exit_code for end in ends)


def retained_by(found: Meta) -> str:
    """Return the UID of the Framework whose controller has let go of a Pod, "" if none has."""
    owner = found.controller
    is_let_go = found.labels.retained is not None and owner is not None and owner.kind == names.KIND
    return owner.uid if owner is not None and is_let_go else ""
