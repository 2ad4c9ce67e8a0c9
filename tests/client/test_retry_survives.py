"""A completed Framework that is submitted again is never lost: it stands, or the new one, or its manifest is kept."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import stat
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from frameworkclient import aio
from frameworkclient.cluster import again, keeping
from frameworkclient.cluster.actions import SubmitAgain
from frameworkclient.errors import (
    ArgumentError,
    ClientError,
    ConflictError,
    ForbiddenError,
    NotFoundError,
    RefusedError,
)
from frameworkkube import backoff
from frameworkkube.errors import TransportError
from tests.client.documents import SUCCEEDED, framework, role, task
from tests.client.played import FRAMEWORKS, Json, PlayedServer, a_client

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path
    from types import FrameType

    from frameworkclient.aio import AsyncClient

DOCUMENT = framework(
    role("worker", 1),
    tasks={"worker": [task(0)]},
    state="Completed",
    end=SUCCEEDED,
    metadata={"annotations": {"note": "one\x9b\u2028\N{GRINNING FACE}", "time": "2026-01-01T00:00:00Z"}},
).to_dict()


class Killed(BaseException):
    """What SIGKILL would do here."""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of kept manifests; failures are repeated at once."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(backoff, "FLOOR_SECONDS", 0)
    return tmp_path / "state" / "frameworkctl"


@contextlib.asynccontextmanager
async def completed() -> AsyncIterator[tuple[PlayedServer, AsyncClient]]:
    """A server with the completed Framework, and a client of it."""
    server = PlayedServer()
    await server.put(FRAMEWORKS, DOCUMENT)
    async with a_client(server) as client:
        yield server, client


def wanted() -> Json:
    return aio.actions.again(DOCUMENT)


def manifests(folder: Path) -> list[Json]:
    """What is kept."""
    return [yaml.safe_load(file.read_text()) for file in folder.glob("*.yaml")]


def clear(folder: Path) -> None:
    for file in folder.iterdir() if folder.exists() else ():
        file.unlink()


def is_safe(server: PlayedServer, folder: Path) -> bool:
    """Whether the old one stands, or the new one, or the file has the whole manifest."""
    found = server.objects[FRAMEWORKS].get("training")
    return (found is not None and aio.actions.again(found) == wanted()) or manifests(folder) == [wanted()]


def is_renewed(server: PlayedServer, folder: Path) -> bool:
    """Whether the new one stands and no file is left."""
    found = server.objects[FRAMEWORKS]["training"]
    return found["metadata"]["uid"] != DOCUMENT["metadata"]["uid"] and not list(folder.iterdir())


def kill_at_line(_client: AsyncClient, number: int) -> None:
    """Raise at a line of what `retry` does itself, counted as they are run."""
    left = number
    names = {"retry", "submit_again", "_create_again", "delete_view", "gone", "create", "keep", "folder", "named"}

    files = {aio.__file__, again.__file__, keeping.__file__}

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal left
        if frame.f_code.co_filename not in files or frame.f_code.co_name not in names:
            return None
        if event == "line":
            left -= 1
            if left == 0:
                raise Killed
        return trace

    sys.settrace(trace)


def kill_at_request(client: AsyncClient, number: int, *, sent: bool) -> None:
    """Raise at a request of the client, before it is sent or when its answer comes."""
    request, requests = client.kube.request, itertools.count(1)

    async def killing(*arguments: Any, **options: Any) -> bytes:
        is_last = next(requests) == number
        if is_last and not sent:
            raise Killed
        try:
            return await request(*arguments, **options)
        finally:
            if is_last:
                raise Killed

    client.kube.request = killing  # type: ignore[method-assign]


KILLS: dict[str, tuple[Callable[[AsyncClient, int], None], int]] = {
    "at a line": (kill_at_line, 50),
    "before a request": (partial(kill_at_request, sent=False), 3),
    "after a request": (partial(kill_at_request, sent=True), 3),
}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # nobody closes the file
@pytest.mark.parametrize(("kill", "least"), KILLS.values(), ids=KILLS)
async def test_a_kill_loses_nothing_wherever_it_is(
    folder: Path, kill: Callable[[AsyncClient, int], None], least: int
) -> None:
    safe: list[bool] = []
    for number in itertools.count(1):
        async with completed() as (server, client):
            kill(client, number)
            try:
                await client.retry("training")
            except Killed:
                safe.append(is_safe(server, folder))
            else:
                break
            finally:
                sys.settrace(None)
            clear(folder)
    assert is_renewed(server, folder)
    assert len(safe) > least
    assert all(safe)


async def test_what_is_interrupted_is_told_by_the_next_retry(folder: Path) -> None:
    async with completed() as (server, client):
        told: list[Path] = []

        def interrupt(file: Path) -> None:
            told.append(file)
            assert "training" in server.objects[FRAMEWORKS]

        async def interrupted(*arguments: Any) -> None:
            raise asyncio.CancelledError

        client.gone = interrupted  # type: ignore[method-assign,assignment]
        with pytest.raises(asyncio.CancelledError):
            await client.retry("training", on_kept=interrupt)
        (file,) = told
        assert yaml.safe_load(file.read_text()) == wanted()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        with pytest.raises(NotFoundError, match=rf"if it is gone, create it again: frameworkctl submit -f {file}$"):
            await client.retry("training")
        with pytest.raises(NotFoundError, match=r"check the name and the namespace$"):
            await client.retry("another")


async def test_a_framework_that_would_be_refused_is_not_deleted(folder: Path) -> None:
    async with completed() as (server, client):
        server.refuse = lambda _: (403, "Forbidden")
        with pytest.raises(ForbiddenError, match=r"because of Forbidden.*; nothing was deleted$"):
            await client.retry("training")
    assert [query.get("dryRun") for method, _, query in server.requests if method == "POST"] == ["All"]
    assert not any(method == "DELETE" for method, *_ in server.requests)
    assert manifests(folder) == []


async def test_a_file_that_cannot_be_written_is_known_before_the_deletion(folder: Path) -> None:
    folder.parent.write_text("no folder")
    async with completed() as (server, client):
        with pytest.raises(ArgumentError, match=r"nothing was deleted: set XDG_STATE_HOME"):
            await client.retry("training")
    assert not any(method == "DELETE" for method, *_ in server.requests)


async def test_a_framework_that_changes_meanwhile_leaves_no_file(folder: Path) -> None:
    async with completed() as (server, client):
        created = client.create

        async def changed(*arguments: Any, **options: Any) -> Any:
            await server.put(FRAMEWORKS, DOCUMENT)
            return await created(*arguments, **options)

        client.create = changed  # type: ignore[method-assign]
        with pytest.raises(ConflictError, match=r"nothing was deleted$"):
            await client.retry("training")
    assert manifests(folder) == []


@pytest.mark.parametrize("code", [403, 422], ids=["forbidden", "invalid"])
async def test_a_create_that_is_refused_leaves_the_file_and_names_it(folder: Path, code: int) -> None:
    async with completed() as (server, client):
        server.refuse = lambda _: None if "training" in server.objects[FRAMEWORKS] else (code, "Forbidden")
        with pytest.raises(RefusedError, match=r"because of Forbidden.*frameworkctl submit -f (.*yaml)$") as raised:
            await client.retry("training")
    assert str(folder / f"demo.training.{DOCUMENT['metadata']['uid']}.yaml") in str(raised.value)
    assert raised.value.code == code
    assert manifests(folder) == [wanted()]


@pytest.mark.parametrize("sent", [False, True], ids=["before", "after"])
async def test_a_create_without_an_answer_is_tried_again(folder: Path, *, sent: bool) -> None:
    async with completed() as (server, client):
        request, lost = client.kube.request, 0

        async def losing(method: str, *arguments: Any, **options: Any) -> bytes:
            nonlocal lost
            if method == "POST" and "dryRun" not in options["query"] and lost < 3:
                lost += 1
                if sent and lost == 3:
                    await request(method, *arguments, **options)
                raise TransportError("POST: the connection broke")
            return await request(method, *arguments, **options)

        client.kube.request = losing  # type: ignore[method-assign,assignment]
        assert await client.retry("training") == SubmitAgain()
    assert lost == 3
    assert is_renewed(server, folder)


async def test_another_framework_that_took_the_name_is_no_substitute(folder: Path) -> None:
    async with completed() as (server, client):
        gone = client.gone

        async def taken(*arguments: Any) -> None:
            await gone(*arguments)
            await server.put(FRAMEWORKS, {**wanted(), "spec": {"taskRoles": []}})

        client.gone = taken  # type: ignore[method-assign,assignment]
        with pytest.raises(ClientError, match=r"it exists already.*frameworkctl submit -f"):
            await client.retry("training")
    assert manifests(folder) == [wanted()]
