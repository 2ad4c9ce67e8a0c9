"""A run as a picture on a terminal: steps, the gang's progress bar, Tasks, the chief's log. `LiveDisplay` calls it."""

from __future__ import annotations

from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from frameworkclient.text import sanitize
from frameworkdemo.picture.objects import ContainerState, TaskKey
from frameworkdemo.picture.state import RunState, Span, StepStatus, Task
from frameworkdemo.picture.summary import MILESTONES, Summary
from frameworkdemo.picture.text import describe_gate, describe_outcome, describe_task, format_duration

SPINNER = Spinner("dots", style="cyan")
PARTS_SHOWN = 4
"""The number of last parts that are shown of the running step."""

_STYLES = {
    "running": "bold green",
    "succeeded": "green",
    "waits in the barrier": "yellow",
    "released": "bold cyan",
    "starting": "cyan",
    "not scheduled": "red",
    "failed": "bold red",
    "barrier failed": "bold red",
}


def render_run(state: RunState, now: float, height: int) -> RenderableType:
    """Return the picture of a run.

    Args:
        state: The state of the run.
        now: The time in seconds since the epoch.
        height: The number of lines of the terminal; the log gets the lines that the rest leaves.
    """
    parts = _shown_parts(state)
    blocks: list[RenderableType] = [_steps(state, parts, now)]
    used = len(state.steps) + len(parts) + 4
    if state.notice and state.applied is None:
        blocks.append(Text(sanitize(state.notice), style="dim"))
        used += 2
    if state.applied is not None:
        blocks += [_gang(state, now), _tasks(state)]
        used += len(state.tasks) + 6
        key = state.chief
        if key is not None and (log := state.tasks[key].log):
            room = max(3, min(12, height - used - 3))
            blocks.append(_log(key, log[-room:]))
    title = Text.assemble(("FrameworkController demo ", "bold"), (format_duration(now - state.began), "dim"))
    subtitle = Text("Ctrl-C leaves, make demo-down removes", style="dim")
    return Panel(Group(*blocks), title=title, subtitle=subtitle, border_style="blue", box=box.ROUNDED)


def render_summary(summary: Summary) -> RenderableType:
    """Return the summary as a table with one bar per milestone."""
    table = Table(box=None, show_header=False, padding=(0, 1))
    table.add_column()
    table.add_column(justify="right")
    table.add_column(width=40)
    longest = max([s for s in summary.milestones.values() if s is not None], default=0.0)
    if summary.milestones:
        table.add_row(Text("from apply to", style="bold"), "", "")
    for name, seconds in summary.milestones.items():
        bar = "" if seconds is None or not longest else "━" * max(1, round(40 * seconds / longest))
        took = "-" if seconds is None else format_duration(seconds)
        table.add_row(f"  {MILESTONES[name]}", took, Text(bar, style="green" if name == "completed" else "cyan"))
    table.add_row(Text("steps", style="bold"), "", "")
    for name, seconds in summary.phases.items():
        table.add_row(f"  {name}", format_duration(seconds), "")
    table.add_row("  all together", Text(format_duration(summary.total), style="bold"), "")
    style = "green" if summary.succeeded else "red"
    title = Text(sanitize(summary.outcome), style=f"bold {style}")
    if summary.retries:
        title.append(f" after {summary.retries} retries", style="yellow")
    return Panel(table, title=title, border_style=style, box=box.ROUNDED)


def _shown_parts(state: RunState) -> list[Span]:
    running = {step.name for step in state.steps if step.status in (StepStatus.RUNNING, StepStatus.FAILED)}
    return [part for part in state.parts if part.step in running][-PARTS_SHOWN:]


def _steps(state: RunState, parts: list[Span], now: float) -> RenderableType:
    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=2)
    grid.add_column(no_wrap=True)
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    for step in state.steps:
        took = "" if step.status is StepStatus.PLANNED else format_duration(step.seconds(now))
        style = "dim" if step.status is StepStatus.PLANNED else "bold" if step.status is StepStatus.RUNNING else ""
        grid.add_row(_sign(step), Text(step.name, style=style), Text(took, style=style), "")
        for part in parts:
            if part.step == step.name:
                took = format_duration(part.seconds(now))
                grid.add_row(
                    "",
                    Text.assemble("  ", _mark(part), " ", sanitize(part.name)),
                    took,
                    Text(sanitize(part.detail), style="dim"),
                )
    return grid


def _sign(step: Span) -> RenderableType:
    return SPINNER if step.status is StepStatus.RUNNING else _mark(step)


def _mark(span: Span) -> Text:
    match span.status:
        case StepStatus.PLANNED:
            return Text("·", style="dim")
        case StepStatus.RUNNING:
            return Text("▸", style="cyan")
        case StepStatus.DONE:
            return Text("✓", style="green")
        case StepStatus.FAILED:
            return Text("✗", style="bold red")


def _gang(state: RunState, now: float) -> RenderableType:
    ready, total = state.gang
    grid = Table.grid(padding=(0, 1))
    grid.add_column(no_wrap=True)
    grid.add_column(width=30)
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="ellipsis", no_wrap=True, ratio=1)
    bar = ProgressBar(total=max(total, 1), completed=ready, width=30, complete_style="yellow", finished_style="green")
    sentence = describe_gate(state)
    style = "bold green" if state.opened is not None else "yellow"
    since = "" if state.applied is None or state.finished else format_duration(now - state.applied)
    head = Text.assemble(("gang ", "bold"), (sanitize(state.framework_name), "bold cyan"))
    grid.add_row(head, bar, f"{ready}/{total} ready", Text(sentence, style=style))
    again = f" (attempt {state.retries + 1})" if state.retries else ""
    finish = "bold green" if state.succeeded else "bold red" if state.finished else "dim"
    grid.add_row("", Text(sanitize(describe_outcome(state)) + again, style=finish), since, "")
    return Group(Text(""), grid)


def _tasks(state: RunState) -> RenderableType:
    table = Table(box=box.SIMPLE_HEAD, expand=True, pad_edge=False, padding=(0, 1))
    for name in ("Task", "State", "Pod", "Node", "IP"):
        table.add_column(name, no_wrap=True, overflow="ellipsis")
    table.add_column("", overflow="ellipsis", no_wrap=True, ratio=1)
    for key, task in state.tasks.items():
        table.add_row(str(key), Text(task.state, style="dim"), _description(task), *_place(task), _problem(task))
    return table


def _description(task: Task) -> Text:
    text = describe_task(task)
    return Text(sanitize(text), style=_STYLES.get(text, "dim"))


def _place(task: Task) -> tuple[str, str]:
    return (sanitize(task.pod.node), sanitize(task.pod.ip)) if task.pod is not None else ("", "")


def _problem(task: Task) -> Text:
    pod = task.pod
    shown = pod is not None and pod.application is not ContainerState.SUCCEEDED and pod.reason
    return Text(sanitize(shown or ""), style="red")


def _log(key: TaskKey, log: tuple[str, ...]) -> RenderableType:
    text = Text("\n".join(sanitize(line) for line in log), no_wrap=True, overflow="ellipsis")
    return Panel(
        text, title=Text(f"log of {key}", style="dim"), title_align="left", border_style="dim", box=box.ROUNDED
    )
