"""The wording for people, which `render`, `plain` and `summary` share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frameworkclient.text import sanitize
from frameworkdemo.picture.objects import ContainerState

if TYPE_CHECKING:
    from frameworkdemo.picture.objects import PodInfo
    from frameworkdemo.picture.state import RunState, Task


def format_duration(seconds: float) -> str:
    """Return seconds as `8.3 s` or `2 min 05 s`."""
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    return f"{whole // 60} min {whole % 60:02d} s"


def describe_task(task: Task) -> str:
    """Return the state of a Task in a few words, by its Pod's containers where these say more than its TaskState."""
    pod = task.pod
    if task.completion is not None and (task.state == "Completed" or task.deleted):
        return "succeeded" if task.completion.succeeded else task.completion.phrase
    if pod is None:
        return "to be created"
    if task.deleted or pod.deleting:
        return "gone" if task.deleted else "ending"
    return _BY_APPLICATION.get(pod.application) or _BY_BARRIER.get(pod.barrier) or _starting(pod)


_BY_APPLICATION = {
    ContainerState.SUCCEEDED: "succeeded",
    ContainerState.FAILED: "failed",
    ContainerState.RUNNING: "running",
}
_BY_BARRIER = {
    ContainerState.SUCCEEDED: "released",
    ContainerState.FAILED: "barrier failed",
    ContainerState.RUNNING: "waits in the barrier",
}


def _starting(pod: PodInfo) -> str:
    return "starting" if pod.node else "not scheduled"


def describe_gate(state: RunState) -> str:
    """Return a sentence about the gate, that is, all barriers together; empty before the Framework is applied."""
    if state.applied is None:
        return ""
    if any(t.pod is not None and t.pod.barrier is ContainerState.ABSENT for t in state.tasks.values()):
        return "no gate: the Pods were not injected"
    opened = state.opened
    if opened is not None:
        return f"gate open after {format_duration(opened - state.applied)}"
    if state.roster is not None and state.roster.complete:
        return "the last Task is ready, the gate opens"
    if state.roster is not None and state.roster.waiting_for:
        missing = "; ".join(f"{name} ({why})" if why else name for name, why in state.roster.waiting_for)
        return sanitize(f"gate closed, missing: {missing}")
    return "gate closed"


def describe_outcome(state: RunState) -> str:
    """Return the state of the Framework, or its result, in a few words."""
    framework = state.framework
    if framework is None or not framework.state:
        return "not seen by the controller yet"
    if state.finished and framework.completion is not None:
        return f"Completed, {framework.completion.phrase}" + (
            "" if state.succeeded else f" ({framework.completion.code})"
        )
    return framework.state
