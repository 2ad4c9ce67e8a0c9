"""`watch`: the picture of a Framework on a terminal, or a line for each change elsewhere, both with a log."""

import asyncio
import contextlib
import sys
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Final

from frameworkclient.aio import AsyncClient
from frameworkclient.cli.changes import changes
from frameworkclient.cli.commands.writing import report
from frameworkclient.cli.exits import ExitCode
from frameworkclient.cli.output import write
from frameworkclient.cli.terminal import is_interactive
from frameworkclient.cluster.following import Moment, moments
from frameworkclient.errors import ClientError
from frameworkclient.logs.selection import LogSelection
from frameworkclient.views.framework import FrameworkView
from frameworkclient.views.text import sanitize

REFRESH_PER_SECOND: Final = 4
_LINES: Final = 60
_CHARACTERS: Final = 1000
"""Of a line in the picture, which is drawn several times a second; a terminal shows fewer."""
_TAIL: Final = 20
_LAST_SECONDS: Final = 5.0
"""For the last lines of the log after the end of the Framework."""
_CHIEFS: Final = ("chief", "master", "launcher", "head", "driver")


async def show(client: AsyncClient, name: str) -> ExitCode:
    """Show a Framework until it is Completed, and return its exit code.

    Raises:
        ClientError: There is no such Framework, it was deleted, or its Pods may not be read.
    """
    return report(await (_live if is_interactive(sys.stdout) else _plain)(client, name))


async def _plain(client: AsyncClient, name: str) -> FrameworkView:
    last: Moment | None = None

    def take(task: str, lines: Sequence[str]) -> None:
        _write([f"{task} | {sanitize(line)}" for line in lines])

    async with aclosing(_moments(client, name, take)) as found:
        async for moment in found:
            _write(changes(last, moment, datetime.now(UTC)))
            last = moment
    assert last is not None
    return last.view


def _write(lines: Sequence[str]) -> None:
    write("".join(f"[{datetime.now(UTC):%H:%M:%S}] {line}\n" for line in lines))
    sys.stdout.flush()


async def _live(client: AsyncClient, name: str) -> FrameworkView:
    from rich.console import Console
    from rich.live import Live

    from frameworkclient.cli.picture import picture

    console = Console()
    log: deque[str] = deque(maxlen=_LINES)
    title = ""
    shown: Moment | None = None

    def take(task: str, lines: Sequence[str]) -> None:
        nonlocal title
        title = f"log of {task}"
        log.extend(line[:_CHARACTERS] for line in lines)

    def draw() -> object:
        return "" if shown is None else picture(shown, tuple(log), title, datetime.now(UTC), console.height)

    with Live(get_renderable=draw, console=console, refresh_per_second=REFRESH_PER_SECOND):  # type: ignore[arg-type]  # a renderable
        async with aclosing(_moments(client, name, take)) as found:
            async for moment in found:
                shown = moment
    assert shown is not None
    return shown.view


async def _moments(
    client: AsyncClient, name: str, take: Callable[[str, Sequence[str]], None]
) -> AsyncGenerator[Moment, None]:
    """Yield the moments of a Framework while the log of its speaker is read; the last one after the log's end.

    `take` takes the speaker and lines of its log, as they arrive. What it raises, such as that nobody reads the output
    any more, is raised at once.
    """
    reader: asyncio.Task[None] | None = None
    wake = asyncio.Event()
    try:
        async with aclosing(moments(client.kube, await client.get(name), wake)) as found:
            async for moment in found:
                if reader is None and (task := speaker(moment.view)):
                    reader = asyncio.create_task(_read_log(client, name, task, take))
                    reader.add_done_callback(lambda _: wake.set())
                if reader is not None and moment.view.finished:
                    await asyncio.wait({reader}, timeout=_LAST_SECONDS)
                if reader is not None and reader.done():
                    reader.result()
                yield moment
    finally:
        if reader is not None:
            reader.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await reader


async def _read_log(client: AsyncClient, name: str, task: str, take: Callable[[str, Sequence[str]], None]) -> None:
    batches = client.log_batches(name, LogSelection(task=task, tail=_TAIL), follow=True)
    # The rest is shown without a log that may not be read.
    with contextlib.suppress(ClientError):
        async with aclosing(batches):
            async for batch in batches:
                take(task, [line.text for line in batch.lines])


def speaker(view: FrameworkView) -> str:
    """Return the Task whose log is shown: of the role that leads by its name, else of the first; "" without Tasks."""
    roles = [role.name for role in view.roles if role.tasks]
    leading = next((name for name in _CHIEFS if name in roles), roles[0] if roles else "")
    return f"{leading}-0" if leading else ""
