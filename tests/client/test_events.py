"""What the Events of a Framework cost in a namespace with many others, and lists whose tokens expire."""

from __future__ import annotations

import json
import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest

from frameworkclient.cli.commands.reading import ASKED_PODS, events_of, pods_and_events
from frameworkclient.cli.options import Format
from frameworkclient.cluster.pages import PAGE
from frameworkclient.errors import RefusedError
from frameworkclient.views.events import KEPT_BYTES, newest
from tests.client.documents import framework, role, task, workers
from tests.client.played import BEGIN, EVENTS, FRAMEWORKS, PlayedServer, a_client

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


def event(number: int, kind: str, about: str, message: str = "text") -> dict[str, Any]:
    return {
        "metadata": {"name": f"e{number:06}"},
        "reason": "Because",
        "message": message,
        "involvedObject": {"kind": kind, "name": about},
        "lastTimestamp": f"2026-01-01T{number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02}Z",
    }


async def crowded(server: PlayedServer, tasks: int) -> None:
    """Fill a namespace with many Events, few of which are about Framework `training`."""
    for number in range(3000):
        kind = ("Pod", "Framework", "ConfigMap", "Job")[number % 4]
        await server.put(EVENTS, event(number, kind, f"other-worker-{number}"))
    for number in range(tasks):
        await server.put(EVENTS, event(3000 + number, "Pod", f"training-worker-{number}"))
    await server.put(EVENTS, event(9000, "Framework", "training"))
    await server.put(EVENTS, event(9001, "ConfigMap", "training-attempt"))


@pytest.mark.parametrize("tasks", [2, 200], ids=["small", "large"])
async def test_a_description_reads_no_events_of_others_and_the_events_of_all_pods_are_shown(
    tasks: int, capsys: pytest.CaptureFixture[str]
) -> None:
    server = PlayedServer()
    await crowded(server, tasks)
    view = workers(*(task(number) for number in range(tasks)))
    await server.put(FRAMEWORKS, view.to_dict())
    async with a_client(server) as client:
        _, events = await pods_and_events(client, view)
        asked = [query for _, path, query in server.requests if path == EVENTS]
        assert len(asked) == 1 + min(tasks, ASKED_PODS)
        assert len(events) == 1 + min(tasks, ASKED_PODS)
        assert server.sent_bytes < 10_000
        await events_of(client, "training", Format.NAME)
    shown = capsys.readouterr().out.split()
    assert [name for name in shown if name < "event/e009000"] == [
        f"event/e{3000 + number:06}" for number in range(tasks)
    ]
    assert "event/e009000" in shown


async def test_tasks_that_do_not_run_are_asked_for_their_events_before_others() -> None:
    server = PlayedServer()
    await crowded(server, 50)
    tasks = [task(number) for number in range(49)] + [task(49, "AttemptPreparing")]
    async with a_client(server) as client:
        _, events = await pods_and_events(client, workers(*tasks))
    assert "training-worker-49" in {event.involved_object.name for event in events}


async def pages(number: int) -> PlayedServer:
    """A server with so many pages of Frameworks."""
    server = PlayedServer()
    for place in range(number * PAGE):
        await server.put(FRAMEWORKS, framework(role("worker", 1), metadata={"name": f"f{place:03}"}).to_dict())
    return server


async def test_a_list_whose_token_expires_goes_on_with_what_is_there_now() -> None:
    server = await pages(3)
    server.expired = True
    async with a_client(server) as client:
        found = await client.list()
    assert [view.name for view in found] == [f"f{number:03}" for number in range(3 * PAGE)]
    assert [query.get("continue") for *_, query in server.requests] == [None, "100", "0100", "200"]


async def test_a_list_whose_token_cannot_be_exchanged_ends_with_an_error() -> None:
    server = await pages(2)
    async with a_client(server) as client:
        server.expired = True
        answer = client.kube.request

        async def expiring(*arguments: Any, **options: Any) -> bytes:
            server.expired = True
            return await answer(*arguments, **options)

        client.kube.request = expiring  # type: ignore[method-assign]  # each token is too old
        with pytest.raises(RefusedError, match="Expired"):
            await client.list()
    assert len(server.requests) < 10


async def test_of_any_number_of_events_the_newest_are_kept() -> None:
    async def many() -> AsyncIterator[bytes]:
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
