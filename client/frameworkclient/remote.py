"""A command in a container of a Pod that runs, over the WebSocket protocol of the API server.

Source: Kubernetes, `v5.channel.k8s.io` (KEP-4006): each message begins with the number of its channel.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

from frameworkclient.errors import RefusedError, UnreachableError, translated
from frameworkkube.rest import resource_path

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from frameworkclient.aio import AsyncClient

PROTOCOLS: Final = ("v5.channel.k8s.io", "v4.channel.k8s.io")
"""The second one cannot say that the input has ended; servers before 1.30 know no other."""


class Channel(IntEnum):
    """What a message is about."""

    STDIN = 0
    STDOUT = 1
    STDERR = 2
    STATUS = 3
    RESIZE = 4
    CLOSE = 255


async def execute(
    client: AsyncClient,
    namespace: str,
    pod: str,
    container: str,
    command: Sequence[str],
    *,
    output: Callable[[Channel, bytes], None],
    stdin: AsyncIterator[bytes] | None = None,
    sizes: AsyncIterator[tuple[int, int]] | None = None,
) -> int:
    """Run a command and return its exit code.

    Args:
        client: The client.
        namespace: Of the Pod.
        pod: Its name.
        container: Its container.
        command: Without a shell.
        output: Takes what the command writes, with `STDOUT` or `STDERR`.
        stdin: What the command reads; None for nothing.
        sizes: Columns and lines of the terminal, now and whenever they change; None for no terminal.

    Raises:
        ClientError: The command could not be started, or the connection broke.
    """
    path = resource_path("v1", "pods", namespace=namespace, name=pod, subresource="exec")
    flags = {"stdin": stdin is not None, "stdout": True, "stderr": sizes is None, "tty": sizes is not None}
    query = [("container", container), *(("command", word) for word in command)]
    query += [(name, "true") for name, wanted in flags.items() if wanted]
    with translated(f"run a command in {namespace}/{pod}"):
        async with client.kube.websocket(path, query, PROTOCOLS) as connection:
            senders = []
            if stdin is not None:
                senders.append(asyncio.create_task(_send_input(connection, stdin)))
            if sizes is not None:
                senders.append(asyncio.create_task(_send_sizes(connection, sizes)))
            try:
                return await _receive(connection, output, f"{namespace}/{pod}")
            finally:
                for sender in senders:
                    sender.cancel()
                await asyncio.gather(*senders, return_exceptions=True)


async def _receive(connection: Any, output: Callable[[Channel, bytes], None], where: str) -> int:
    async for message in connection:
        data = message.data if isinstance(message.data, bytes) else str(message.data).encode()
        if not data:
            continue
        match data[0]:
            case Channel.STDOUT | Channel.STDERR:
                output(Channel(data[0]), data[1:])
            case Channel.STATUS:
                return exit_code(data[1:])
            case _:
                pass
    raise UnreachableError(f"the connection to {where} broke, and the exit code of the command is not known")


async def _send_input(connection: Any, stdin: AsyncIterator[bytes]) -> None:
    # The command may have ended already.
    with contextlib.suppress(ConnectionError):
        async for data in stdin:
            await connection.send_bytes(bytes([Channel.STDIN]) + data)
        if connection.protocol == PROTOCOLS[0]:
            await connection.send_bytes(bytes([Channel.CLOSE, Channel.STDIN]))


async def _send_sizes(connection: Any, sizes: AsyncIterator[tuple[int, int]]) -> None:
    with contextlib.suppress(ConnectionError):
        async for columns, lines in sizes:
            size = json.dumps({"Width": columns, "Height": lines}).encode()
            await connection.send_bytes(bytes([Channel.RESIZE]) + size)


def exit_code(status: bytes) -> int:
    """Return the exit code that the last message of a connection tells.

    Raises:
        RefusedError: The command was not started.
    """
    try:
        found = json.loads(status)
    except ValueError:
        found = {}
    if found.get("status") == "Success":
        return 0
    causes = (found.get("details") or {}).get("causes") or []
    code = next((one.get("message", "") for one in causes if one.get("reason") == "ExitCode"), "")
    if code.isdigit():
        return int(code)
    raise RefusedError(f"the command was not started: {found.get('message') or 'no reason given'}", 500)
