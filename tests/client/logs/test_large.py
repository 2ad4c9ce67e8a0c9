"""What Events and logs of many Tasks cost, in turns where connections or pages are limited."""

import asyncio
import json
import resource
import sys
import tracemalloc
from collections import Counter
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pytest

from frameworkclient.aio import AsyncClient
from frameworkclient.cli.commands.reading import ASKED_PODS, Seen, events_of, pods_and_events
from frameworkclient.cli.options import Format
from frameworkclient.errors import RefusedError
from frameworkclient.logs.container import REST_LOST
from frameworkclient.logs.selection import LogSelection
from frameworkclient.views.events import KEPT_BYTES, newest
from frameworkkube.http.pages import PAGE
from tests.client.documents import SUCCEEDED, container, framework, pod_document, role, task, workers
from tests.client.logs.test_lines import stamp
from tests.client.played import BEGIN, EVENTS, FRAMEWORKS, PODS, PlayedServer, a_client
from tests.support.kubeconfig import kubeconfig


def event(number: int, kind: str, about: str, message: str = "text") -> dict[str, Any]:
    time = f"2026-01-01T{number // 3600:02}:{number // 60 % 60:02}:{number % 60:02}Z"
    said = {"reason": "Because", "message": message, "lastTimestamp": time}
    return {"metadata": {"name": f"e{number:06}"}, "involvedObject": {"kind": kind, "name": about}, **said}


@pytest.mark.parametrize("size", [2, 200], ids=["small", "large"])
async def test_a_description_asks_for_few_events_those_of_tasks_that_do_not_run_first_and_all_can_be_shown(
    size: int, capsys: pytest.CaptureFixture[str]
) -> None:
    server = PlayedServer()
    kinds = ("Pod", "Framework", "ConfigMap", "Job") * 750
    crowd = [event(number, kind, f"other-worker-{number}") for number, kind in enumerate(kinds)]
    ours = [event(3000 + number, "Pod", f"training-worker-{number}") for number in range(size)]
    ours += [event(9000, "Framework", "training"), event(9001, "ConfigMap", "training-attempt")]
    for one in crowd + ours:
        await server.put(EVENTS, one)
    view = workers(*(task(number) for number in range(size - 1)), task(size - 1, "AttemptPreparing"))
    await server.put(FRAMEWORKS, view.to_dict())
    async with a_client(server) as client:
        _, events = await pods_and_events(client, Seen(view, datetime.fromisoformat(BEGIN)))
        asked = [query for _, path, query in server.requests if path == EVENTS]
        assert len(asked) == len(events) == 1 + min(size, ASKED_PODS)
        assert f"training-worker-{size - 1}" in {event.involved_object.name for event in events}
        assert server.sent_bytes < 10_000
        await events_of(client, "training", Format.NAME)
    shown = capsys.readouterr().out.split()
    assert [name for name in shown if name < "event/e009000"] == [
        f"event/e{3000 + number:06}" for number in range(size)
    ]
    assert "event/e009000" in shown


async def test_a_list_whose_token_expires_goes_on_with_what_is_there_now_or_ends_with_an_error() -> None:
    server, names = PlayedServer(), [f"f{number:03}" for number in range(3 * PAGE)]
    for name in names:
        await server.put(FRAMEWORKS, framework(role("worker", 1), metadata={"name": name}).to_dict())
    async with a_client(server) as client:
        server.expired = 1
        assert [view.name for view in await client.list()] == names
        assert [query.get("continue") for *_, query in server.requests] == [None, "100", "0100", "200"]
        server.expired = 99
        with pytest.raises(RefusedError, match="Expired") as raised:
            await client.list()
    assert raised.value.code == 410
    assert len(server.requests) < 14


async def test_of_any_number_of_events_the_newest_are_kept_and_one_of_the_year_0_is_left_out() -> None:
    async def many() -> AsyncIterator[bytes]:
        yield json.dumps(event(0, "Framework", "training") | {"lastTimestamp": "0000-01-01T00:00:00Z"}).encode()
        for number in range(3000):
            yield json.dumps(event(number, "Framework", "training", "x" * 10_000)).encode()

    tracemalloc.start()
    found = await newest(many(), "training")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 3 * KEPT_BYTES
    assert 0.9 * KEPT_BYTES / 10_300 < len(found) < 3000
    assert found[-1].metadata.name == "e002999"
    assert found[0].time.isoformat() > BEGIN


FILES: Final = 256
SLEEP: Final = asyncio.sleep


def line(index: int, number: int) -> str:
    """One of the lines of a Task, two of which it writes in a second."""
    return f"{stamp(number // 2)} {index}.{number}"


async def put(server: PlayedServer, index: int, state: str) -> None:
    """Store the Pod of a Task, whose container is in this state."""
    await server.put(PODS, pod_document(f"worker-{index}", statuses=[container(state=state)]))


async def gang(server: PlayedServer, size: int, *, ended: bool) -> None:
    """A Framework whose Tasks have written five lines each, in the same seconds."""
    end: dict[str, Any] = {"state": "Completed", "end": SUCCEEDED} if ended else {}
    await server.put(FRAMEWORKS, framework(role("worker", size), **end).to_dict())
    for index in range(size):
        server.logs[f"training-worker-{index}"] = [line(index, number) for number in range(5)]
        await put(server, index, "terminated" if ended else "running")


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

    async def until(self, lines: int) -> None:
        """Wait until there are so many different lines."""
        while len(self.lines) < lines:
            await self._came.wait()
            self._came.clear()


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> int:
    """Eight connections, and turns that follow each other at once."""
    monkeypatch.setattr("frameworkclient.logs.container.most_connections", lambda: 8)
    monkeypatch.setattr("frameworkclient.logs.collector.asyncio.sleep", lambda _: SLEEP(0))
    return 8


async def test_each_line_of_containers_that_take_turns_comes_once(few: int) -> None:
    server, size = PlayedServer(), 40
    await gang(server, size, ended=False)
    async with a_client(server) as client:
        following = Following()
        running = asyncio.ensure_future(following.run(client))
        await following.until(5 * size)
        for number in range(5, 10):
            for index in range(size):
                await server.write(f"training-worker-{index}", line(index, number))
            await following.until((number + 1) * size)
        for index in range(size):
            await put(server, index, "terminated")
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
            server.logs[f"training-worker-{index}"] += [line(index, number) for number in range(9)]
            await server.write(f"training-worker-{index}", line(index, 9))
        await following.until(10 * size)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert set(following.lines.values()) == {1}
