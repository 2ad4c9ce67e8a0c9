"""A barrier that gave up, although its Pod has not failed (docs/reference/framework-api.md, section 6).

A barrier exits with 201 or 210 to end its Task attempt. With `restartPolicy: Never` the Pod fails by that. With any
other one, and as a native sidecar always, the kubelet restarts the barrier instead: it waits again and again, while the
Pod stays Pending and no code decides anything. So the controller judges the barrier itself.

What counts is what is seen now: once a restarted barrier has let its Pod through, its earlier exits are history.
"""

from typing import Final

from msgspec.structs import replace

from frameworkcontroller.api import names
from frameworkcontroller.api.codes import Code
from frameworkcontroller.api.pod import ContainerState, InitContainerStatus, Pod

GIVES_UP: Final = frozenset({Code.CONTAINER_TRANSIENT_CONFLICT_FAILED, Code.CONTAINER_PERMANENT_FAILED})
"""The exit codes of a barrier that ends the attempt (docs/reference/barrier.md, section 5)."""


def failed_by_barrier(pod: Pod) -> Pod | None:
    """Return the Pod as if its barrier had failed it; None unless the barrier gave up and still holds it back.

    The Pod is neither Succeeded nor Failed nor under deletion.
    """
    status = pod.status.barrier
    end = None if status is None else status.ended_by(GIVES_UP)
    if status is None or end is None or _is_open(pod, status):
        return None
    ended = replace(status, state=ContainerState(terminated=end))
    statuses = tuple(ended if one is status else one for one in pod.status.init_container_statuses)
    # A sidecar that gave up is judged like a barrier that runs once.
    containers = tuple(
        replace(one, restart_policy="") if one.name == names.BARRIER_CONTAINER else one
        for one in pod.spec.init_containers
    )
    return replace(
        pod,
        spec=replace(pod.spec, init_containers=containers),
        status=replace(pod.status, init_container_statuses=statuses),
    )


def _is_open(pod: Pod, status: InitContainerStatus) -> bool:
    """Report whether the barrier has let the application start, in this run or in an earlier one."""
    end = status.state.terminated
    if end is not None and end.exit_code == 0:
        return True
    is_sidecar = names.BARRIER_CONTAINER in pod.spec.sidecars
    if is_sidecar and status.state.running is not None and status.started:
        return True
    states = (one.state for one in pod.status.container_statuses)
    return any(state.running is not None or state.terminated is not None for state in states)
