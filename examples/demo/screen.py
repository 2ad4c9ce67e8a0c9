"""The run as a picture on a terminal: steps, Tasks, the gang's bar, the chief's log; drawn anew from the model."""

from __future__ import annotations

from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from demo.facts import Stage, TaskKey
from demo.model import Demo, Progress, Span, Task
from demo.summary import MILESTONES, Summary
from demo.words import clean, duration, gate, outcome, task_state

SPINNER = Spinner("dots", style="cyan")
PARTS_SHOWN = 4
"""Of the running step, the last so many."""

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


def picture(demo: Demo, now: float, height: int) -> RenderableType:
    """Return what the screen shows.

    Args:
        demo: What is known.
        now: Seconds since the epoch.
        height: Lines of the terminal; the log gets what the rest leaves.
    """
    parts = _shown_parts(demo)
    blocks: list[RenderableType] = [_steps(demo, parts, now)]
    used = len(demo.steps) + len(parts) + 4
    if demo.said and demo.applied is None:
        blocks.append(Text(clean(demo.said), style="dim"))
        used += 2
    if demo.applied is not None:
        blocks += [_gang(demo, now), _tasks(demo)]
        used += len(demo.tasks) + 6
        key = demo.chief
        if key is not None and (log := demo.tasks[key].log):
            room = max(3, min(12, height - used - 3))
            blocks.append(_log(key, log[-room:]))
    title = Text.assemble(("FrameworkController demo ", "bold"), (duration(now - demo.began), "dim"))
    subtitle = Text("Ctrl-C leaves, make demo-down removes", style="dim")
    return Panel(Group(*blocks), title=title, subtitle=subtitle, border_style="blue", box=box.ROUNDED)


def summary_picture(summary: Summary) -> RenderableType:
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
        took = "-" if seconds is None else duration(seconds)
        table.add_row(f"  {MILESTONES[name]}", took, Text(bar, style="green" if name == "completed" else "cyan"))
    table.add_row(Text("steps", style="bold"), "", "")
    for name, seconds in summary.phases.items():
        table.add_row(f"  {name}", duration(seconds), "")
    table.add_row("  all together", Text(duration(summary.total), style="bold"), "")
    style = "green" if summary.succeeded else "red"
    title = Text(clean(summary.outcome), style=f"bold {style}")
    if summary.retries:
        title.append(f" after {summary.retries} retries", style="yellow")
    return Panel(table, title=title, border_style=style, box=box.ROUNDED)


def _shown_parts(demo: Demo) -> list[Span]:
    running = {step.name for step in demo.steps if step.progress in (Progress.RUNNING, Progress.FAILED)}
    return [work for work in demo.works if work.step in running][-PARTS_SHOWN:]


def _steps(demo: Demo, parts: list[Span], now: float) -> RenderableType:
    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=2)
    grid.add_column(no_wrap=True)
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    for step in demo.steps:
        took = "" if step.progress is Progress.PLANNED else duration(step.seconds(now))
        style = "dim" if step.progress is Progress.PLANNED else "bold" if step.progress is Progress.RUNNING else ""
        grid.add_row(_sign(step), Text(step.name, style=style), Text(took, style=style), "")
        for part in parts:
            if part.step == step.name:
                took = duration(part.seconds(now))
                grid.add_row(
                    "",
                    Text.assemble("  ", _mark(part), " ", clean(part.name)),
                    took,
                    Text(clean(part.detail), style="dim"),
                )
    return grid


def _sign(step: Span) -> RenderableType:
    return SPINNER if step.progress is Progress.RUNNING else _mark(step)


def _mark(span: Span) -> Text:
    match span.progress:
        case Progress.PLANNED:
            return Text("·", style="dim")
        case Progress.RUNNING:
            return Text("▸", style="cyan")
        case Progress.DONE:
            return Text("✓", style="green")
        case Progress.FAILED:
            return Text("✗", style="bold red")


def _gang(demo: Demo, now: float) -> RenderableType:
    ready, total = demo.gang
    grid = Table.grid(padding=(0, 1))
    grid.add_column(no_wrap=True)
    grid.add_column(width=30)
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="ellipsis", no_wrap=True, ratio=1)
    bar = ProgressBar(total=max(total, 1), completed=ready, width=30, complete_style="yellow", finished_style="green")
    sentence = gate(demo)
    style = "bold green" if demo.opened is not None else "yellow"
    since = "" if demo.applied is None or demo.finished else duration(now - demo.applied)
    head = Text.assemble(("gang ", "bold"), (clean(demo.framework_name), "bold cyan"))
    grid.add_row(head, bar, f"{ready}/{total} ready", Text(sentence, style=style))
    again = f" (attempt {demo.retries + 1})" if demo.retries else ""
    finish = "bold green" if demo.succeeded else "bold red" if demo.finished else "dim"
    grid.add_row("", Text(clean(outcome(demo)) + again, style=finish), since, "")
    return Group(Text(""), grid)


def _tasks(demo: Demo) -> RenderableType:
    table = Table(box=box.SIMPLE_HEAD, expand=True, pad_edge=False, padding=(0, 1))
    for name in ("Task", "State", "Pod", "Node", "IP"):
        table.add_column(name, no_wrap=True, overflow="ellipsis")
    table.add_column("", overflow="ellipsis", no_wrap=True, ratio=1)
    for key, task in demo.tasks.items():
        table.add_row(str(key), Text(task.state, style="dim"), _told(task), *_where(task), _trouble(task))
    return table


def _told(task: Task) -> Text:
    words = task_state(task)
    return Text(clean(words), style=_STYLES.get(words, "dim"))


def _where(task: Task) -> tuple[str, str]:
    return (clean(task.pod.node), clean(task.pod.ip)) if task.pod is not None else ("", "")


def _trouble(task: Task) -> Text:
    pod = task.pod
    shown = pod is not None and pod.application is not Stage.DONE and pod.reason
    return Text(clean(shown or ""), style="red")


def _log(key: TaskKey, log: tuple[str, ...]) -> RenderableType:
    text = Text("\n".join(clean(line) for line in log), no_wrap=True, overflow="ellipsis")
    return Panel(
        text, title=Text(f"log of {key}", style="dim"), title_align="left", border_style="dim", box=box.ROUNDED
    )
