"""Which Tasks keep a gang incomplete, and why: what is decided, seen in the caches, and refused by the API server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frameworkcontroller.api.states import State
from frameworkcontroller.core.policies.readiness import Obstacle, is_ready, obstacle_of
from frameworkcontroller.core.status.summary import gang_roles

if TYPE_CHECKING:
    from collections.abc import Iterator

    from frameworkcontroller.core.reconcile.decision import View
    from frameworkcontroller.core.reconcile.in_flight import InFlight
    from frameworkcontroller.core.status.state import FrameworkState


def obstacles(state: FrameworkState, in_flight: InFlight, view: View) -> Iterator[tuple[str, Obstacle]]:
    """Yield the names of the Tasks that are not ready, and what keeps each: the most specific reason that is known."""
    for role_state in gang_roles(state):
        name = role_state.name
        if role_state.counts.ready == role_state.counts.active:
            continue
        for current in role_state.active():
            if not is_ready(current):
                failure = in_flight.last_failure(("pod", name, current.index))
                if current.state is State.CREATION_PENDING:
                    window = in_flight.refusals.window(name)
                    failure = failure or state.crash_loops.why((name, current.index))
                    failure = failure or (window.reason if window is not None else in_flight.slow_start.message)
                pod = view.pod(current.attempt_status.pod_name)
                obstacle = obstacle_of(current, pod)
                if failure:
                    obstacle = Obstacle(failure, obstacle.reason, failure)
                yield f"{name}-{current.index}", obstacle
