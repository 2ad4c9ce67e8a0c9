"""Which Pods stay when their Task ends, for their logs (docs/reference/framework-api.md, section 5). Pure.

A Pod that stays has ended, so that no guarantee speaks of it. It gets a label by which the caches do not show it any
more, and the Framework as its owner: for the state machines it is gone, and it goes with the Framework.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from frameworkcontroller.api import names
from frameworkcontroller.api.spec import RETAIN_ALWAYS, RETAIN_ON_FAILURE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from frameworkcontroller.api.meta import Meta
    from frameworkcontroller.api.pod import Pod

PHASES: Final[Mapping[str, frozenset[str]]] = {
    RETAIN_ON_FAILURE: frozenset({"Failed"}),
    RETAIN_ALWAYS: frozenset({"Failed", "Succeeded"}),
}
"""The phases of the Pods that stay, by `retainPods`."""


def may_stay(retain_pods: str, pod: Pod) -> bool:
    """Report whether the user wants the Pod, and its kubelet has said that nothing of it runs any more.

    The phase alone does not say that: the control plane sets it, too, for a Pod whose node is lost.
    """
    status = pod.status
    if pod.metadata.deletion_timestamp is not None or status.phase not in PHASES.get(retain_pods, ()):
        return False
    containers, init_containers = status.container_statuses, status.init_container_statuses
    have_ended = bool(containers) and all(one.state.terminated is not None for one in containers)
    return have_ended and all(one.state.running is None for one in init_containers)


def retained_by(found: Meta) -> str:
    """Return the UID of the Framework whose controller has let go of a Pod, "" if none has."""
    owner = found.controller
    is_let_go = names.RETAINED_LABEL in found.labels and owner is not None and owner.kind == names.KIND
    return owner.uid if owner is not None and is_let_go else ""
