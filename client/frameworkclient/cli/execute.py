"""`exec`: a command in the Pod of a Task, with this terminal or this process's input and output."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from frameworkclient.actions import check_task
from frameworkclient.errors import ArgumentError
from frameworkclient.remote import Channel, execute

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    from frameworkclient.aio import AsyncClient
    from frameworkclient.pods import TaskPod

_PIECE: Final = 32 * 1024
_QUEUED: Final = 8


async def run_in(client: AsyncClient, name: str, task: str, command: Sequence[str], container: str) -> int:
    """Run a command in the Pod of a Task, and return its exit code.

    Raises:
        ClientError: There is no such Task, its Pod does not run, or the command could not be started.
    """
    view = await client.get(name)
    check_task(task, [role.name for role in view.roles])
    pod = next((one for one in await client.pods(name) if one.task == task), None)
    chosen = _container(pod, task, container)
    assert pod is not None
    on_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    with _raw_terminal(enabled=on_terminal):
        return await execute(
            client,
            view.namespace,
            pod.metadata.name,
            chosen,
            command,
            output=_write,
            stdin=_input(),
            sizes=_sizes() if on_terminal else None,
        )


def _container(pod: TaskPod | None, task: str, wanted: str) -> str:
    if pod is None:
        raise ArgumentError(f"task {task}: it has no Pod at present")
    running = [one.name for one in pod.statuses if one.state.running is not None]
    if wanted and wanted not in running:
        raise ArgumentError(f"--container {wanted}: does not run; there are {', '.join(running) or 'none that run'}")
    chosen = wanted or next((name for name in pod.application if name in running), "")
    if not chosen:
        raise ArgumentError(f"task {task}: its Pod does not run its application: {pod.stage}")
    return chosen


def _write(channel: Channel, data: bytes) -> None:
    stream = (sys.stdout if channel is Channel.STDOUT else sys.stderr).buffer
    stream.write(data)
    stream.flush()


async def _input() -> AsyncIterator[bytes]:
    """Yield what stdin has, read in a thread: an event loop cannot wait for a file."""
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[bytes] = asyncio.Queue(_QUEUED)

    def read() -> None:
        while True:
            data = os.read(sys.stdin.fileno(), _PIECE)
            asyncio.run_coroutine_threadsafe(queue.put(data), loop).result()
            if not data:
                return

    # A thread that still reads must not keep the process alive.
    threading.Thread(target=read, name="stdin", daemon=True).start()
    while data := await queue.get():
        yield data


async def _sizes() -> AsyncIterator[tuple[int, int]]:
    changed = asyncio.Event()
    changed.set()
    asyncio.get_running_loop().add_signal_handler(signal.SIGWINCH, changed.set)
    while True:
        await changed.wait()
        changed.clear()
        yield shutil.get_terminal_size()


@contextmanager
def _raw_terminal(*, enabled: bool) -> Iterator[None]:
    """Send each key as it is for the block: the other side has the terminal."""
    if not enabled:
        yield
        return
    import termios
    import tty

    before = termios.tcgetattr(sys.stdin.fileno())
    tty.setraw(sys.stdin.fileno())
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, before)
