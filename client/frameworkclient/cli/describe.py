"""A Framework as a tree: what is wanted, where each Task is, what has failed and what will happen next."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

from frameworkclient.cli.tables import STATE_COLOURS, events_table, table
from frameworkclient.cli.terminal import Colours
from frameworkclient.views.events import EventView
from frameworkclient.views.framework import FrameworkView, RoleView, TaskView
from frameworkclient.views.ledger import SIGNS, ledger_of, share_text
from frameworkclient.views.outlook import counts_text, ending, framework_outlook, needs, task_outlook, waiting
from frameworkclient.views.pods import Stage, TaskPod
from frameworkclient.views.progress import hang_lines, progress_text, shown_hang
from frameworkclient.views.text import counted, sanitize, since, span
from frameworkcontroller.api.spec import RETAIN_ALWAYS, RETAIN_ON_FAILURE, TaskRoleSpec
from frameworkcontroller.api.states import LedgerState

EVENTS: Final = 10
_WIDTH: Final = 12
_BAR: Final = 60
_RETAINED: Final = {RETAIN_ON_FAILURE: "those that have failed", RETAIN_ALWAYS: "all that have ended"}


def description(
    view: FrameworkView, pods: Mapping[str, TaskPod], events: Sequence[EventView], now: datetime, colours: Colours
) -> str:
    """Return everything about a Framework that a person wants to see at once: its Pods by Task, its last Events."""
    lines = [*_head(view, now, colours), *_hang(view, now, colours), *_ledger(view, now, colours)]
    lines += ["", colours("Roles", "bold"), *_roles(view, pods, colours)]
    if events:
        shown = events[-EVENTS:]
        older = f" (the last {len(shown)} of {len(events)})" if len(events) > len(shown) else ""
        lines += ["", colours("Events", "bold") + older, events_table(shown, now, colours).rstrip("\n")]
    return "\n".join(lines) + "\n"


def _head(view: FrameworkView, now: datetime, colours: Colours) -> Iterator[str]:
    state = view.state or "not seen by the controller"
    ready = f", {view.ready_text} ready" if view.ready_text and not view.finished else ""
    attempt = f", attempt {view.attempts}" if view.attempts > 1 else ""
    yield _field("Framework", f"{view.namespace}/{view.name}")
    if view.spec.description:
        yield _field("Description", view.spec.description)
    yield _field("State", colours(state, STATE_COLOURS.get(state, "")) + ready + attempt, safe=True)
    if (result := view.result) is not None:
        by = f", by {result.task}" if result.task else ""
        text = f"{result.phrase} ({result.code}){by}"
        yield _field("Result", colours(sanitize(text), "green" if result.succeeded else "red"), safe=True)
        yield _field("", result.diagnostics)
    if reason := waiting(view, now):
        yield _field("Waits for", reason)
    if following := framework_outlook(view, now):
        yield _field("Next", following)
    yield _field("Age", _times(view, now))
    used = view.status.retry_policy_status if view.status else None
    retried = f"; {used.total_retried_count} so far, {used.accountable_retried_count} of them count" if used else ""
    yield _field("Retries", counts_text(view.spec.retry_policy) + retried)
    if restarts := view.gang_restarts:
        yield _field(
            "Restarted", f"in its Pods, {counted(restarts[-1].epoch, 'time')}; the last time, {restarts[-1].why}"
        )
    if progress := progress_text(view, now):
        yield _field("Progress", progress)
    if (limit := view.spec.active_deadline_seconds) is not None:
        yield _field("Deadline", f"{limit} s after its first Task ran")
    if (kept := view.spec.ttl_seconds_after_finished) is not None:
        yield _field("Kept", f"{kept} s after its end")
    if pods := _RETAINED.get(view.spec.retain_pods):
        yield _field("Pods stay", pods)


def _hang(view: FrameworkView, now: datetime, colours: Colours) -> Iterator[str]:
    """Yield what hangs, or has hung last: since when, who is the culprit, and what was done."""
    if (hang := shown_hang(view)) is not None:
        yield ""
        yield colours("Hangs", "bold red") if view.hang else colours("Hung", "bold")
        yield from (f"  {_field(name, text)}" for name, text in hang_lines(view, hang, now))


def _ledger(view: FrameworkView, now: datetime, colours: Colours) -> Iterator[str]:
    """Yield what the time was spent on: a bar, and a table of what took any."""
    ledger = ledger_of(view, now)
    if ledger is None or not ledger.life:
        return
    bar = "".join(colours(part, LEDGER_COLOURS.get(state, "")) for state, part in ledger.bar(_BAR))
    yield ""
    lost = f", lost {span(ledger.lost)}" if ledger.lost else ""
    yield f"{colours('Time', 'bold')}: goodput {share_text(ledger.goodput)}{lost}"
    yield f"  {bar}"
    rows = [
        (f"  {SIGNS[state]} {state}", span(number), f"{number / ledger.life:.0%}", span(ledger.attempt[state]))
        for state, number in ledger.total.items()
        if number > 0
    ]
    yield table(("  STATE", "TOTAL", "SHARE", "THIS ATTEMPT"), rows, colours).rstrip("\n")


def _field(name: str, text: str, *, safe: bool = False) -> str:
    return f"{name:<{_WIDTH}}{text if safe else sanitize(text)}".rstrip()


def _times(view: FrameworkView, now: datetime) -> str:
    parts, status = [since(view.created, now)], view.status
    if status is not None and status.run_time is not None:
        parts.append(f"first ran {since(status.run_time, now)} ago")
    if status is not None and status.completion_time is not None:
        parts.append(f"ended {since(status.completion_time, now)} ago")
    return ", ".join(parts)


def _roles(view: FrameworkView, pods: Mapping[str, TaskPod], colours: Colours) -> Iterator[str]:
    for place, role in enumerate(view.roles):
        last = place == len(view.roles) - 1
        yield f"{'└─' if last else '├─'} {colours(role.name, 'bold')}: {_role(role)}"
        stem = "   " if last else "│  "
        for number, task in enumerate(role.tasks):
            pod, at_end = pods.get(task.name), number == len(role.tasks) - 1
            yield f"{stem}{'└─' if at_end else '├─'} {_task(task, pod, colours)}"
            under = f"{stem}{'   ' if at_end else '│  '}"
            for text in filter(None, (note(task, pod), task_outlook(view, role, task))):
                yield f"{under}  {sanitize(text)}"


def _role(role: RoleView) -> str:
    if role.spec is None:
        return f"{counted(len(role.tasks), 'Task')} to go, the role was removed"
    parts = [counted(role.spec.task_number, "Task"), *_policy(role.spec)]
    retries = counts_text(role.spec.task.retry_policy)
    if retries != "no retries":
        parts.append(f"each: {retries}")
    if role.waits:
        parts.append(f"waits until {needs(role)}")
    return ", ".join(parts)


def _policy(spec: TaskRoleSpec) -> Iterator[str]:
    """Yield what the ends of Tasks mean for the attempt, where it is not the default."""
    policy = spec.framework_attempt_completion_policy
    if policy.min_failed_task_percent is not None:
        yield f"the attempt fails with {policy.min_failed_task_percent} % failed"
    elif policy.min_failed_task_count > 1:
        yield f"the attempt fails with {policy.min_failed_task_count} failed"
    elif policy.min_failed_task_count < 0:
        yield "failures do not fail the attempt"
    if policy.min_succeeded_task_percent is not None:
        yield f"the attempt succeeds with {policy.min_succeeded_task_percent} % succeeded"
    elif policy.min_succeeded_task_count > 0:
        yield f"the attempt succeeds with {policy.min_succeeded_task_count} succeeded"


def _task(task: TaskView, pod: TaskPod | None, colours: Colours) -> str:
    parts = [task.name, colours(task.state, STATE_COLOURS.get(task.state, ""))]
    if task.ended and task.completion is not None:
        phrase = sanitize(task.completion.phrase)
        parts.append(colours(phrase, "green" if task.succeeded else "red"))
    elif pod is not None:
        parts.append(colours(pod.stage, STAGE_COLOURS[pod.stage]))
    if task.attempt:
        parts.append(f"attempt {task.attempt + 1}")
    parts += [sanitize(part) for part in (task.node, task.ip) if part]
    return "  ".join(parts)


STAGE_COLOURS: Final = {
    Stage.RUNNING: "green",
    Stage.SUCCEEDED: "green",
    Stage.RELEASED: "cyan",
    Stage.STARTING: "cyan",
    Stage.BARRIER: "yellow",
    Stage.NOT_SCHEDULED: "red",
    Stage.FAILED: "red",
    Stage.BARRIER_FAILED: "red",
    Stage.ENDING: "dim",
}


LEDGER_COLOURS: Final = {LedgerState.RUNNING: "green"} | dict.fromkeys(
    (LedgerState.BACKOFF, LedgerState.HUNG, LedgerState.RESTARTING), "red"
)


def note(task: TaskView, pod: TaskPod | None) -> str:
    """Return why a Task has failed, or what holds it up; "" if nothing does."""
    if task.completion is not None and not task.succeeded:
        return ending(task.completion)
    return pod.reason if pod is not None and pod.stage is not Stage.SUCCEEDED else ""
