"""The live picture of a Framework: its gang, its Tasks, the last lines of a log. `watch` shows it on a terminal."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from frameworkclient.cli.changes import headline
from frameworkclient.cli.describe import STAGE_COLOURS, note
from frameworkclient.cluster.following import Moment
from frameworkclient.views.outlook import task_outlook, waiting
from frameworkclient.views.pods import Stage
from frameworkclient.views.text import sanitize, since

_FRAME: Final = 8
"""Lines of the picture beside Tasks and log."""
_LOG: Final = (3, 12)
"""Lines of the log at least and at most."""


def picture(moment: Moment, log: Sequence[str], title: str, now: datetime, height: int) -> RenderableType:
    """Return the picture, with the last lines of a log that fit into a terminal of `height` lines."""
    least, most = _LOG
    room = max(least, height - _FRAME - least)
    blocks: list[RenderableType] = [_gang(moment, now), _tasks(moment, room)]
    if log:
        used = _FRAME + min(len(list(moment.view.tasks)), room)
        shown = max(least, min(most, height - used - 3))
        text = Text("\n".join(sanitize(line) for line in log[-shown:]), no_wrap=True, overflow="ellipsis")
        blocks.append(Panel(text, title=Text(title, style="dim"), title_align="left", border_style="dim"))
    name = Text.assemble(
        (f"{moment.view.namespace}/{moment.view.name} ", "bold"), (since(moment.view.created, now), "dim")
    )
    return Panel(Group(*blocks), title=name, subtitle=Text("Ctrl-C leaves", style="dim"), border_style="blue")


def _gang(moment: Moment, now: datetime) -> RenderableType:
    view = moment.view
    ready, _, total = view.ready_text.partition("/")
    done, wanted = (int(ready), int(total)) if ready.isdigit() and total.isdigit() else (0, 0)
    grid = Table.grid(padding=(0, 1))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="ellipsis", no_wrap=True, ratio=1)
    style = "bold green" if view.succeeded else "bold red" if view.finished else ""
    bar = ProgressBar(total=max(wanted, 1), completed=done, width=30, complete_style="yellow", finished_style="green")
    grid.add_row(bar, Text(headline(view, now), style=style))
    reason = waiting(view, now)
    grid.add_row("", Text(f"waits for {sanitize(reason)}" if reason else "", style="yellow"))
    return grid


def _tasks(moment: Moment, room: int) -> RenderableType:
    table = Table(box=box.SIMPLE_HEAD, expand=True, pad_edge=False, padding=(0, 1))
    for name in ("Task", "State", "Pod", "Node", "IP"):
        table.add_column(name, no_wrap=True, overflow="ellipsis")
    table.add_column("", overflow="ellipsis", no_wrap=True, ratio=1)
    pairs = [(role, task) for role in moment.view.roles for task in role.tasks]
    stages = {name: pod.stage for name, pod in moment.pods.items()}
    # Those with something to say come first where not all have room.
    if len(pairs) > room:
        pairs.sort(key=lambda pair: pair[1].ended or stages.get(pair[1].name) is Stage.RUNNING)
    for role, task in pairs[:room]:
        stage, reason = stages.get(task.name), note(task, moment.pods.get(task.name))
        following = task_outlook(moment.view, role, task)
        table.add_row(
            task.name + (f" #{task.attempt + 1}" if task.attempt else ""),
            Text(task.state, style="dim"),
            Text(stage or "", style=STAGE_COLOURS[stage] if stage else ""),
            Text(sanitize(task.node)),
            Text(sanitize(task.ip)),
            Text(sanitize("; ".join(part for part in (reason, following) if part)), style="red" if reason else "dim"),
        )
    if len(pairs) > room:
        table.add_row(f"and {len(pairs) - room} more", "", "", "", "", "")
    return table
