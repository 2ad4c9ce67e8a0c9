"""Why there are no logs of a Task, and what to set to have them next time: pure, from its Framework and its Pod."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frameworkclient.views.text import listed
from frameworkcontroller.api.spec import RETAIN_ALWAYS, RETAIN_NEVER, RETAIN_ON_FAILURE

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from frameworkclient.logs.selection import LogSelection
    from frameworkclient.views.framework import FrameworkView, TaskView
    from frameworkclient.views.pods import TaskPod


def absent(
    view: FrameworkView,
    pods: Mapping[str, TaskPod],
    selection: LogSelection,
    program: str,
    archived: Container[str] = (),
) -> list[str]:
    """Return a sentence for each reason for which Tasks that are wanted have no logs, with these Tasks.

    Args:
        view: The Framework.
        pods: Its Pods by Task.
        selection: What is wanted.
        program: How the user calls this program, for the next steps.
        archived: Tasks of whose logs the archive says more.
    """
    by_reason: dict[str, list[str]] = {}
    for task in view.tasks:
        if selection.takes(task.role, task.name) and task.name not in archived:
            pod = pods.get(task.name)
            reason = _without_pod(view, task, program) if pod is None else _without_lines(view, pod, selection, program)
            if reason:
                by_reason.setdefault(reason, []).append(task.name)
    if not by_reason and not pods and not any(view.tasks):
        return [f"no logs: Framework {view.name} has no Tasks yet; {program} why {view.name} says what it waits for"]
    return [f"no logs of {listed(tasks)}: {reason}" for reason, tasks in by_reason.items()]


def _without_pod(view: FrameworkView, task: TaskView, program: str) -> str:
    if not task.ended:
        return f"it has no Pod; {program} why {view.name} says what it waits for"
    kept = view.spec.retain_pods
    if kept == RETAIN_ALWAYS or (kept == RETAIN_ON_FAILURE and not task.succeeded):
        why = "it still ran when its Framework ended, somebody has removed it, or a retry needed its name"
        return f"its Pod is gone, though spec.retainPods keeps Pods that have ended: {why}"
    wanted = RETAIN_ALWAYS if task.succeeded else RETAIN_ON_FAILURE
    shown = "" if kept == RETAIN_NEVER else f", and {kept} does not keep one that has succeeded"
    return f"its Pod is gone with its end{shown}; set spec.retainPods: {wanted} before it runs again"


def _without_lines(view: FrameworkView, pod: TaskPod, selection: LogSelection, program: str) -> str:
    """Return why no container that is wanted has a log, "" if one has."""
    if selection.barrier and not pod.has_barrier:
        return "its Pod has no barrier"
    found = [status for _, status in selection.sources(pod)]
    if selection.previous:
        return "" if any(one.restart_count for one in found) else "no container of its Pod has been restarted"
    if any(one.has_started for one in found):
        return ""
    return f"its Pod has not started ({pod.stage}); {program} why {view.name} says what it waits for"
