"""`watch`: the picture of a Framework on a terminal, or a line for each change elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections import deque
from contextlib import aclosing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from frameworkclient.cli.changes import Moment, changes
from frameworkclient.cli.output import write
from frameworkclient.cli.terminal import is_interactive
from frameworkclient.errors import ClientError
from frameworkclient.following import Collection
from frameworkclient.logs.selection import LogSelection
from frameworkclient.pods import TASK_POD_DECODER, TaskPod
from frameworkcontroller.api import names
from frameworkkube.rest import resource_path

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from frameworkclient.aio import AsyncClient
    from frameworkclient.views import FrameworkView

REFRESH_PER_SECOND: Final = 4
_LINES: Final = 60
_TAIL: Final = 20
_CHIEFS: Final = ("chief", "master", "launcher", "head", "driver")


async def show(client: AsyncClient, name: str) -> FrameworkView:
    """Show a Framework until it is Completed, and return it.

    Raises:
        ClientError: There is no such Framework, it was deleted, or its Pods may not be read.
    """
    if is_interactive(sys.stdout):
        return await _live(client, name)
    last: Moment | None = None
    async with aclosing(moments(client, name)) as found:
        async for moment in found:
            now = datetime.now(UTC)
            write("".join(f"[{now:%H:%M:%S}] {line}\n" for line in changes(last, moment, now)))
            sys.stdout.flush()
            last = moment
    assert last is not None
    return last.view


async def moments(client: AsyncClient, name: str) -> AsyncGenerator[Moment, None]:
    """Yield a Framework with its Pods as they are now, and again with each change, until it is Completed.

    Raises:
        DeletedError: It was deleted.
        ClientError: It does not exist, or its Pods may not be read.
    """
    first = await client.get(name)
    # An informer repeats what is refused; a permission that is missing must end the command.
    await client.pods(name)
    wake = asyncio.Event()
    pods: Collection[TaskPod] = Collection(
        client.kube,
        resource_path("v1", "pods", namespace=first.namespace),
        TASK_POD_DECODER,
        wake,
        label_selector=f"{names.FRAMEWORK_NAME}={name}",
    )
    async with pods, client.following(first, wake) as frameworks:
        while True:
            wake.clear()
            pods.check()
            view = client.current(first, frameworks)
            yield Moment(view, {pod.task: pod for pod in pods.objects.values()})
            if view.finished:
                return
            await wake.wait()


async def _live(client: AsyncClient, name: str) -> FrameworkView:
    from rich.console import Console
    from rich.live import Live

    from frameworkclient.cli.picture import picture

    console = Console()
    log: deque[str] = deque(maxlen=_LINES)
    shown: Moment | None = None
    task = ""

    def draw() -> object:
        return "" if shown is None else picture(shown, tuple(log), f"log of {task}", datetime.now(UTC), console.height)

    reader: asyncio.Task[None] | None = None
    try:
        with Live(get_renderable=draw, console=console, refresh_per_second=REFRESH_PER_SECOND):  # type: ignore[arg-type]  # a renderable
            async with aclosing(moments(client, name)) as found:
                async for moment in found:
                    shown = moment
                    if reader is None and (task := speaker(moment.view)):
                        reader = asyncio.create_task(_read(client, name, task, log))
    finally:
        if reader is not None:
            reader.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await reader
    assert shown is not None
    return shown.view


async def _read(client: AsyncClient, name: str, task: str, log: deque[str]) -> None:
    batches = client.log_batches(name, LogSelection(task=task, tail=_TAIL), follow=True)
    # The picture goes on without a log that may not be read.
    with contextlib.suppress(ClientError):
        async with aclosing(batches):
            async for batch in batches:
                log.extend(line.text for line in batch.lines)


def speaker(view: FrameworkView) -> str:
    """Return the Task whose log is shown: of the role that leads by its name, else of the first; "" without Tasks."""
    roles = [role.name for role in view.roles if role.tasks]
    leading = next((name for name in _CHIEFS if name in roles), roles[0] if roles else "")
    return f"{leading}-0" if leading else ""
