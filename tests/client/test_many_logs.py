"""The logs of more containers than a process may have connections: in turns, each line once."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import sys
from collections import Counter
from typing import TYPE_CHECKING, Final

import pytest

from frameworkclient.logs import collector, container
from frameworkclient.logs.container import REST_LOST
from frameworkclient.logs.selection import LogSelection
from frameworkkube.http import session
from tests.client.documents import SUCCEEDED, framework, role
from tests.client.played import FRAMEWORKS, PODS, Json, PlayedServer, a_client
from tests.client.test_start import kubeconfig

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from pathlib import Path

    from frameworkclient.aio import AsyncClient

FILES: Final = 256
SLEEP: Final = asyncio.sleep


def a_pod(index: int, state: str = "running") -> Json:
    labels = {"FC_FRAMEWORK_NAME": "training", "FC_TASKROLE_NAME": "worker", "FC_TASK_INDEX": str(index)}
    return {
        "metadata": {"name": f"training-worker-{index}", "uid": f"uid-{index}", "labels": labels},
        "spec": {"containers": [{"name": "main"}]},
        "status": {"phase": "Running", "containerStatuses": [{"name": "main", "state": {state: {}}}]},
    }


def line(second: int, text: str) -> str:
    return f"2026-01-01T12:00:{second:02}.000000000Z {text}"


async def gang(server: PlayedServer, size: int, *, ended: bool) -> None:
    """A Framework whose Tasks have written five lines each, in the same seconds."""
    found = framework(role("worker", size), **({"state": "Completed", "end": SUCCEEDED} if ended else {}))
    await server.put(FRAMEWORKS, found.to_dict())
    for index in range(size):
        server.logs[f"training-worker-{index}"] = [line(second // 2, f"{index}.{second}") for second in range(5)]
        await server.put(PODS, a_pod(index, "terminated" if ended else "running"))


@pytest.mark.parametrize("flags", [[], ["-f"]], ids=["at once", "followed"])
async def test_a_thousand_containers_are_read_with_256_open_files(tmp_path: Path, flags: list[str]) -> None:
    server = PlayedServer()
    await gang(server, 1000, ended=True)
    async with server.serving() as url:
        config = kubeconfig(tmp_path / "config", cluster={"server": url})
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "frameworkclient", "logs", "training", "-n", "demo", *flags),
            *("--save", str(tmp_path / "logs"), "--kubeconfig", config),
            stderr=asyncio.subprocess.PIPE,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES)),
        )
        _, errors = await process.communicate()
    assert errors.decode() == f"5000 lines in 1000 files of {tmp_path / 'logs'}\n"
    found = {file.name.split(".")[0]: file.read_text().split() for file in (tmp_path / "logs").iterdir()}
    assert found == {f"worker-{index}": [f"{index}.{second}" for second in range(5)] for index in range(1000)}
    assert server.open_logs[1] <= FILES // 2


class Following:
    """Follows the logs of a gang, and counts the lines.

    Attributes:
        lines: How often each line has come.
        notes: The notes.
    """

    def __init__(self) -> None:
        self.lines: Counter[str] = Counter()
        self.notes: list[str] = []
        self._came = asyncio.Event()

    async def run(self, client: AsyncClient, selection: LogSelection | None = None) -> None:
        async for batch in client.log_batches("training", selection, follow=True):
            self.lines.update(one.text for one in batch.lines)
            self.notes += [batch.note] if batch.note else []
            self._came.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await self._came.wait()
            self._came.clear()


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> int:
    """Eight connections, and turns that follow each other at once."""
    monkeypatch.setattr(container, "most_connections", lambda: 8)
    monkeypatch.setattr(collector.asyncio, "sleep", lambda _: SLEEP(0))
    return 8


async def test_each_line_of_containers_that_take_turns_comes_once(few: int) -> None:
    server, size = PlayedServer(), 40
    await gang(server, size, ended=False)
    async with a_client(server) as client:
        following = Following()
        running = asyncio.ensure_future(following.run(client))
        await following.until(lambda: len(following.lines) == 5 * size)
        for second in range(5, 10):
            for index in range(size):
                await server.write(f"training-worker-{index}", line(second // 2, f"{index}.{second}"))
            await following.until(lambda: len(following.lines) == (second + 1) * size)  # noqa: B023 -- at once
        for index in range(size):
            await server.put(PODS, a_pod(index, "terminated"))
        ended = framework(role("worker", size), state="Completed", end=SUCCEEDED).to_dict()
        await server.put(FRAMEWORKS, ended, "MODIFIED")
        for index in range(size):
            await server.put(PODS, server.objects[PODS][f"training-worker-{index}"], "DELETED")
        await running
    assert set(following.lines.values()) == {1}
    assert set(following.notes) <= {REST_LOST}
    assert server.open_logs[1] <= few


async def test_a_container_that_has_written_nothing_is_read_from_its_first_line_on(few: int) -> None:
    server, size = PlayedServer(), 20
    await gang(server, size, ended=False)
    for lines in server.logs.values():
        lines.clear()
    async with a_client(server) as client:
        following = Following()
        running = asyncio.ensure_future(following.run(client, LogSelection(tail=2)))
        while sum(path.endswith("/log") for _, path, _ in server.requests) < 3 * size:
            await SLEEP(0)
        for index in range(size):
            server.logs[f"training-worker-{index}"] += [line(second, f"{index}.{second}") for second in range(9)]
            await server.write(f"training-worker-{index}", line(9, f"{index}.9"))
        await following.until(lambda: len(following.lines) == 10 * size)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert set(following.lines.values()) == {1}


async def test_too_many_open_files_are_the_reason_and_not_the_container(monkeypatch: pytest.MonkeyPatch) -> None:
    server, made, make = PlayedServer(), 0, session.Sockets.make

    def only_one(sockets: session.Sockets, address: tuple[object, ...]) -> socket.socket:
        nonlocal made
        made += 1
        if made > 1:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return make(sockets, address)

    await gang(server, 3, ended=True)
    monkeypatch.setattr(session.Sockets, "make", only_one)
    async with a_client(server) as client:
        batches = [batch async for batch in client.log_batches("training", LogSelection())]
    assert len(batches) == 3
    for batch in batches:
        assert "its log could not be read: GET /api/v1/namespaces/demo/pods/training-worker-" in batch.note
        assert batch.note.endswith("Too many open files in this process; allow more: ulimit -n")
