"""A completed Framework that is submitted again is never lost: it stands, or the new one, or its manifest is kept."""

import asyncio
import contextlib
import itertools
import stat
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import yaml

from frameworkclient import aio
from frameworkclient.aio import AsyncClient
from frameworkclient.cluster import actions, again
from frameworkclient.errors import (
    AlreadyExistsError,
    ArgumentError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    RefusedError,
)
from frameworkkube import backoff
from frameworkkube.errors import TransportError
from tests.client.documents import SUCCEEDED, framework, role, task
from tests.client.played import FRAMEWORKS, Json, PlayedServer, a_client

Answer = Callable[[dict[str, Json]], tuple[int, str] | None]

DOCUMENT = framework(
    role("worker", 1),
    tasks={"worker": [task(0)]},
    state="Completed",
    end=SUCCEEDED,
    metadata={"annotations": {"note": "one\x9b\u2028\N{GRINNING FACE}", "time": "2026-01-01T00:00:00Z"}},
).to_dict()
UID = DOCUMENT["metadata"]["uid"]
WANTED = actions.again(DOCUMENT)


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


def manifests(folder: Path) -> list[Json]:
    """What is kept."""
    return [yaml.safe_load(file.read_text()) for file in folder.glob("*.yaml")]


def clear(folder: Path) -> None:
    """Remove what is kept; the folder stays, as it does for a user."""
    for file in folder.glob("*"):
        file.unlink()


def is_old(server: PlayedServer) -> bool:
    """Whether the old one stands."""
    found = server.objects[FRAMEWORKS].get("training")
    return found is not None and found["metadata"]["uid"] == UID


def is_renewed(server: PlayedServer, folder: Path) -> bool:
    """Whether the new one stands and no file is left."""
    return "training" in server.objects[FRAMEWORKS] and not is_old(server) and not list(folder.iterdir())


def kill_at_line(number: int) -> None:
    """Raise at a line of what `retry` does itself, counted as they are run: before and after each of its requests."""
    left = number
    names = {"retry", "submit_again", "_create_again", "delete_view", "gone", "create", "keep", "folder", "named"}
    files = {aio.__file__, again.__file__}

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


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # nobody closes the file
async def test_a_kill_loses_nothing_wherever_it_is(folder: Path) -> None:
    safe, states = list[bool](), set[tuple[bool, int, int]]()
    for number in itertools.count(1):
        async with completed() as (server, client):
            kill_at_line(number)
            try:
                await client.retry("training")
            except Killed:
                # The old one stands, or the new one, or the file has the whole manifest.
                stored = [actions.again(found) for found in server.objects[FRAMEWORKS].values()]
                safe.append(WANTED in stored or manifests(folder) == [WANTED])
                states.add((is_old(server), len(server.objects[FRAMEWORKS]), len(manifests(folder))))
            else:
                break
            finally:
                sys.settrace(None)
            clear(folder)
    assert is_renewed(server, folder)
    assert len(safe) > 50
    assert all(safe)
    # The old one without and with a file, the file alone, the new one with and without it.
    assert states == {(True, 1, 0), (True, 1, 1), (False, 0, 1), (False, 1, 1), (False, 1, 0)}


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
        assert yaml.safe_load(file.read_text()) == WANTED
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        with pytest.raises(NotFoundError, match=rf"if it is gone, create it again: frameworkctl submit -f {file}$"):
            await client.retry("training")
        with pytest.raises(NotFoundError, match=r"check the name and the namespace$"):
            await client.retry("another")


async def test_a_file_that_cannot_be_written_is_known_before_the_deletion(folder: Path) -> None:
    folder.parent.write_text("no folder")
    async with completed() as (server, client):
        with pytest.raises(ArgumentError, match=r"nothing was deleted: set XDG_STATE_HOME"):
            await client.retry("training")
    assert is_old(server)


def changed(stored: dict[str, Json]) -> None:
    stored["training"]["metadata"]["resourceVersion"] = "99"


def taken(stored: dict[str, Json], **more: str) -> None:
    other = {**DOCUMENT["metadata"], "uid": "other", **more}
    stored.setdefault("training", {**DOCUMENT, "metadata": other, "spec": {"taskRoles": []}})


def once_deleted(code: int, reason: str) -> Answer:
    return lambda stored: None if stored else (code, reason)


NOTHING, SUBMIT = r"; nothing was deleted$", r"frameworkctl submit -f (.*yaml)$"
ANSWERS: dict[str, tuple[Answer, type[RefusedError], str]] = {
    "would be refused": (lambda _: (403, "Forbidden"), ForbiddenError, f"because of Forbidden.*{NOTHING}"),
    "changes meanwhile": (changed, ConflictError, NOTHING),
    "is forbidden": (once_deleted(403, "Forbidden"), ForbiddenError, f"because of Forbidden.*{SUBMIT}"),
    "is invalid": (once_deleted(422, "Invalid"), InvalidError, f"because of Invalid.*{SUBMIT}"),
    "another has taken the name": (taken, AlreadyExistsError, f"it exists already.*{SUBMIT}"),
    "another is going": (
        lambda stored: taken(stored, deletionTimestamp="2026-01-01T00:00:00Z"),
        AlreadyExistsError,
        f"being deleted; first wait until it is gone: frameworkctl wait NAME --for=deleted.*{SUBMIT}",
    ),
}


@pytest.mark.parametrize("name", ANSWERS)
async def test_a_create_that_fails_deletes_nothing_or_names_the_file_with_the_manifest(folder: Path, name: str) -> None:
    """Each create, dry runs included, gets this answer, by what is stored at that time."""
    answer, error, message = ANSWERS[name]
    async with completed() as (server, client):
        server.refuse = lambda _: answer(server.objects[FRAMEWORKS])
        with pytest.raises(error, match=message) as raised:
            await client.retry("training")
    assert next(query for method, _, query in server.requests if method == "POST").get("dryRun") == "All"
    assert manifests(folder) == ([] if is_old(server) else [WANTED])
    assert (str(folder / f"demo.training.{UID}.yaml") in str(raised.value)) is not is_old(server)


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

        client.kube.request = losing  # type: ignore[method-assign]
        assert await client.retry("training") == actions.SubmitAgain()
    assert lost == 3
    assert is_renewed(server, folder)
