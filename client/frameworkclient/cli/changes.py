"""What has changed in a Framework and its Pods, as lines for logs and pipes; `watch` without a terminal writes them."""

from collections.abc import Iterator
from datetime import datetime

from frameworkclient.cluster.following import Moment
from frameworkclient.views.framework import FrameworkView
from frameworkclient.views.outlook import ending, waiting
from frameworkclient.views.pods import Stage, TaskPod
from frameworkclient.views.progress import step_text
from frameworkclient.views.text import sanitize


def changes(before: Moment | None, after: Moment, now: datetime) -> list[str]:
    """Return a line for each difference from the moment before, None at the beginning."""
    known = dict(_lines(before, now)) if before is not None else {}
    return [f"{subject}: {text}" for subject, text in _lines(after, now) if text and known.get(subject) != text]


def _lines(moment: Moment, now: datetime) -> Iterator[tuple[str, str]]:
    """Yield each subject with what there is to say about it."""
    yield moment.view.name, headline(moment.view, now)
    for task in moment.view.tasks:
        pod = moment.pods.get(task.name)
        if task.ended and task.completion is not None:
            yield task.name, sanitize(ending(task.completion))
        elif pod is not None:
            yield task.name, _pod(pod)


def _pod(pod: TaskPod) -> str:
    parts = [pod.stage.value]
    if pod.spec.node_name:
        parts.append(f"on {pod.spec.node_name}")
    if pod.status.pod_ip:
        parts.append(pod.status.pod_ip)
    text = ", ".join(parts)
    return f"{text} ({pod.reason})" if pod.reason and pod.stage is not Stage.SUCCEEDED else text


def headline(view: FrameworkView, now: datetime) -> str:
    """Return state, readiness and result of a Framework on one line."""
    result = view.result
    if result is not None:
        by = f" by {result.task}" if result.task and not result.succeeded else ""
        return sanitize(f"Completed, {result.phrase}" + ("" if result.succeeded else f" ({result.code}){by}"))
    parts = [view.state or "not seen by the controller"]
    if view.ready_text:
        parts.append(f"{view.ready_text} ready")
    if view.attempts > 1:
        parts.append(f"attempt {view.attempts}")
    if step := step_text(view):
        parts.append(f"step {step}")
    if view.hang is not None:
        parts.append("hung")
    if view.state == "AttemptCompleted" and (reason := waiting(view, now)):
        parts.append(f"waits for {reason.partition(', in ')[0]}")
    return ", ".join(parts)
