"""What is written of Frameworks that change, and how long somebody waits for them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import pytest
import yaml

from frameworkclient.aio import AsyncClient
from frameworkclient.cli.commands import live
from frameworkclient.cli.commands.reading import list_frameworks
from frameworkclient.cli.options import Format, ListFlags
from frameworkclient.cluster.following import following
from frameworkclient.errors import ForbiddenError, WaitTimeoutError
from testkit.waiting import patience
from tests.client.documents import SUCCEEDED, container, framework, pod_document, role, task, workers
from tests.client.logs.test_lines import stamp
from tests.client.played import FRAMEWORKS, PODS, Json, PlayedServer, a_client
from tests.kube import scripted
from tests.kube.scripted import a_server, refusal


def document(**more: object) -> Json:
    return framework(role("worker", 1), **more).to_dict()  # type: ignore[arg-type]


@contextlib.asynccontextmanager
async def played() -> AsyncIterator[tuple[PlayedServer, AsyncClient]]:
    """A server with a Framework that runs, and a client of it."""
    server = PlayedServer()
    await server.put(FRAMEWORKS, document())
    async with a_client(server) as client:
        yield server, client


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(patience(10)):
        while not condition():  # noqa: ASYNC110 -- of a server that tells nobody
            await asyncio.sleep(0.01)


async def test_a_list_that_is_watched_has_a_document_for_each_change_of_a_spec_or_a_status(
    capsys: pytest.CaptureFixture[str],
) -> None:
    written = ""

    def states() -> list[list[str]]:
        nonlocal written
        written += capsys.readouterr().out
        found = list(yaml.safe_load_all(written))
        return [[one["status"]["state"] for one in each["items"]] for each in found]

    async with played() as (server, client):
        listing = asyncio.ensure_future(list_frameworks(client, ListFlags(output=Format.YAML, watch=True)))
        await until(lambda: any("watch" in query for *_, query in server.requests))
        noted = document(metadata={"annotations": {"note": "new"}})
        for one in (noted, document(state="AttemptPreparing"), document(state="Completed", end=SUCCEEDED)):
            await server.put(FRAMEWORKS, one, "MODIFIED")
            await until(lambda: one is noted or states()[-1] == [one["status"]["state"]])  # noqa: B023 -- at once
        listing.cancel()
        await asyncio.gather(listing, return_exceptions=True)
    assert states() == [["AttemptRunning"], ["AttemptPreparing"], ["Completed"]]


async def test_a_watch_whose_output_nobody_reads_any_more_ends_with_the_next_line_of_its_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def write(text: str) -> None:
        if "found" in text:
            raise BrokenPipeError

    monkeypatch.setattr(live, "write", write)
    async with played() as (server, client):
        one = pod_document(statuses=[container()])
        server.logs[one["metadata"]["name"]] = [f"{stamp(1)} found"]
        await server.put(FRAMEWORKS, workers(task(0)).to_dict(), "MODIFIED")
        await server.put(PODS, one)
        with pytest.raises(BrokenPipeError):
            await asyncio.wait_for(live.show(client, "training"), patience(10))


async def test_a_wait_of_no_time_looks_once() -> None:
    async with played() as (server, client):
        with pytest.raises(WaitTimeoutError, match=r"^Framework training is not completed after 0 s$"):
            await client.wait("training", timeout=0)
        await server.put(FRAMEWORKS, document(state="Completed", end=SUCCEEDED), "MODIFIED")
        view = await client.wait("training", timeout=0)
        assert view is not None
        assert view.succeeded


async def test_who_may_get_a_framework_and_not_list_it_is_told_so_and_waits_for_nothing() -> None:
    async with a_server() as server, scripted.a_client(server) as kube:
        server.on("GET", refusal(403, "Forbidden"))
        with pytest.raises(ForbiddenError, match=r"^cannot list Frameworks of namespace demo: "):
            async with following(kube, framework(role("worker", 1)), asyncio.Event()):
                pass
