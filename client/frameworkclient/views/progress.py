"""How far a gang is, where it hangs, and what was done about that, in words, from spec and status alone. Pure.

What is shown of sections and stacks is text of strangers: who draws it makes it safe.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import UNSET

from frameworkclient.views.text import counted, duration, listed, since
from frameworkcontroller.api import names
from frameworkcontroller.api.codes import Code
from frameworkcontroller.api.states import LedgerState
from frameworkcontroller.api.status import MAX_STACK, Hang, RestartReason

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from frameworkclient.views.framework import FrameworkView, RoleView

UNKNOWN_SECONDS: Final = 180
"""A controller that reaches the Pods has heard of progress by then; it asks once a minute."""


def _annotations(role: RoleView) -> Mapping[str, str]:
    """Return the annotations of a Pod template, none if it cannot be read."""
    try:
        pod = msgspec.json.decode(role.spec.task.pod if role.spec else b"{}")
        return msgspec.convert(pod["metadata"]["annotations"], dict[str, str])
    except (msgspec.MsgspecError, LookupError, TypeError, RecursionError):
        return {}


def restarts_by_itself(view: FrameworkView) -> bool:
    """Report whether a hang ends the gang's epoch or attempt; else it is only observed."""
    return any(_annotations(role).get(names.HANG_ANNOTATION, "").strip() == "restart" for role in view.roles)


def unknown_for(view: FrameworkView, now: datetime) -> tuple[str, float] | None:
    """Return the Pod that would be asked first and the seconds for which nothing is known, None if enough is known.

    The Pods of a gang that runs say how far they are, and the controller has not heard of it for minutes.
    """
    ledger = view.status.ledger if view.status else None
    if not ledger or ledger.state != LedgerState.RUNNING:
        return None
    seconds = (now - max(ledger.since, view.progress.time if view.progress else ledger.since)).total_seconds()
    telling = (one for one in view.roles if names.PROGRESS_ANNOTATION in _annotations(one))
    pods = (task.pod for role in telling for task in role.tasks if not task.ended)
    return next(((pod, seconds) for pod in pods if seconds > UNKNOWN_SECONDS), None)


def step_text(view: FrameworkView) -> str:
    """Return the step of the slowest Task, and the rate: `1200 4.5/min`; "" where it is not known."""
    found = view.progress
    return "" if found is None or found.slowest is None else f"{found.slowest} {_rate(found.per_minute)}".rstrip()


def progress_text(view: FrameworkView, now: datetime) -> str:
    """Return how far the gang is, on one line; "" where that is not known."""
    if (found := view.progress) is None:
        return ""
    steps = "no step yet" if found.slowest is None else f"step {found.slowest}"
    steps += f"..{found.fastest}" if found.fastest not in {None, found.slowest} else ""
    saved = "" if found.checkpoint is None else f"at {found.checkpoint}"
    age = f"{since(found.checkpoint_time, now)} ago" if found.checkpoint_time else ""
    parts = [
        f"{steps} of {counted(found.ranks, 'Task')}",
        _rate(found.per_minute),
        f"last checkpoint {', '.join(filter(None, (saved, age)))}" if saved or age else "no checkpoint is known",
        f"as of {since(found.time, now)} ago",
        f"nothing is known of {listed(found.left_out, MAX_STACK)}" if found.left_out else "",
    ]
    return "; ".join(filter(None, parts))


def _rate(per_minute: float | None) -> str:
    return "" if per_minute is None else f"{min(per_minute, 1e9):.1f}".removesuffix(".0") + "/min"


def shown_hang(view: FrameworkView) -> Hang | None:
    """Return the hang that goes on, else the last one that is known; None if there was none."""
    status, progress = view.status, view.progress
    known = (progress.hang if progress else None, status.hangs.last if status and status.hangs else None)
    return view.hang or max(filter(None, known), key=lambda one: one.time, default=None)


def began(hang: Hang) -> datetime:
    """Return when the last progress before a hang was made."""
    try:
        return hang.time - timedelta(seconds=hang.silent)
    except OverflowError:
        return hang.time


def hang_lines(view: FrameworkView, hang: Hang, now: datetime) -> Iterator[tuple[str, str]]:
    """Yield the lines about a hang, each with its name; the name "" continues the line before."""
    then = began(hang)
    after = "" if hang.step is None else f", after step {hang.step}"
    attempt = f", in attempt {hang.attempt + 1}" if view.status and view.status.attempt_status.id else ""
    yield "since", f"{then:%Y-%m-%d %H:%M:%S} UTC, {since(then, now)} ago{after}{attempt}"
    silence = f"after {duration(hang.silent)} without progress; the limit is {duration(hang.limit)}"
    yield "found", f"{hang.time:%Y-%m-%d %H:%M:%S} UTC, {silence}"
    for one in hang.culprits:
        section = f", in section {one.section}" if one.section else ""
        yield "culprit", f"{one.task} on node {one.node or '?'}{section}: {hang.why}"
        yield from (("", f"  {'called from' if place else 'at'} {line}") for place, line in enumerate(one.stack))
    if not hang.culprits:
        yield "culprit", "not known"
    yield "done", done_about(view, hang)
    hangs = view.status.hangs if view.status else None
    if hangs and (hangs.last.attempt, hangs.last.epoch) == (hang.attempt, hang.epoch):
        beyond = f", without a step beyond {hangs.best_step}" if hangs.in_a_row > 1 else ""
        yield "in a row", counted(hangs.in_a_row, "time") + beyond
    if view.hang is not None:
        yield "now", "it still hangs"
    elif view.status and view.status.completion is None:
        yield "now", _since_then(view, hang)


def _since_then(view: FrameworkView, hang: Hang) -> str:
    """Return what is known of a gang since its hang was over."""
    found = view.progress
    if found is None or found.hang is not None or found.slowest is None or found.time <= hang.time:
        return "nothing is known since"
    return f"it goes on, at step {found.slowest}"


def done_about(view: FrameworkView, hang: Hang) -> str:
    """Return what has followed from a hang."""
    status, epoch = view.status, hang.epoch + 1
    assert status is not None
    attempt, end, last = status.attempt_status, status.completion, status.hangs.last if status.hangs else None
    name, why = f"attempt {hang.attempt + 1}", {one.epoch: one.reason for one in view.gang_restarts}.get(epoch)
    hung = listed([one.name for one in view.tasks if one.completion and one.completion.code == Code.TASK_HUNG])
    if last is None or (last.attempt, last.epoch) < (hang.attempt, hang.epoch):
        return "its restart begins" if restarts_by_itself(view) else "nothing: hangs are only observed"
    if hang.attempt < attempt.id:
        return f"{name} ended" + (" with GangHung (-270) and was retried" if attempt.gang_epoch is UNSET else "")
    if end is not None and end.code in {Code.GANG_HUNG, Code.GANG_HUNG_REPEATEDLY}:
        return f"{name} ended with {end.phrase} ({end.code})" + (" and was not retried" if view.finished else "")
    if hung or why == RestartReason.POD_REPLACED:
        again = f", and the gang restarted as epoch {epoch}" if why else ""
        return f"{hung or 'its culprits'} ended with TaskHung (-280){again}"
    is_over = (attempt.gang_epoch or 0) >= epoch
    return f"the gang restarted in its Pods as epoch {epoch}" if is_over else "its restart begins"
