"""The log of one container over connections that break, restarts, and Pods of the same name."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import msgspec
import pytest

from frameworkclient.errors import ForbiddenError
from frameworkclient.logs.container import LOST, Connections, ContainerLog
from frameworkclient.logs.lines import LogSource
from frameworkclient.logs.selection import LogSelection
from frameworkkube.http.client import KubeClient
from frameworkkube.http.credentials import Endpoint
from tests.client.documents import container, pod
from tests.client.faketime import FakeTime
from tests.client.test_log_lines import stamp
from tests.kube.scripted import Connection, ScriptedServer, Step, answer, refusal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from frameworkclient.views.pods import TaskPod

LOG = "/api/v1/namespaces/demo/pods/training-worker-0/log"
SOURCE = LogSource("worker-0", (0, 0), "training-worker-0", "uid-worker-0", "main", 0, "worker-0")
RUNNING = pod(statuses=[container()])
ENDED = pod(statuses=[container("main", "terminated", exitCode=0)])


def log(*numbers: int, complete: bool = True) -> Step:
    """An answer with these lines; one that is not complete breaks off."""
    content = "".join(f"{stamp(number)} {number}\n" for number in numbers).encode()

    async def step(connection: Connection) -> None:
        length = len(content) + (0 if complete else 100)
        await connection.send(f"HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n".encode() + content)
        if not complete:
            connection.reset()

    return step


def as_json(found: TaskPod) -> Step:
    return answer(200, msgspec.json.encode(found))


class Reader:
    """Reads the log of a container from a scripted server, in no time.

    Attributes:
        states: What is known of the Pod, one after the other; the last one stays.
    """

    def __init__(self, client: KubeClient, server: ScriptedServer) -> None:
        self.server = server
        self.states: list[TaskPod | None] = [RUNNING]
        self.connections = Connections()
        self._client = client

    async def read(self, selection: LogSelection | None = None) -> tuple[list[str], list[str]]:
        """Return the texts and the notes."""

        def newest() -> TaskPod | None:
            return self.states.pop(0) if len(self.states) > 1 else self.states[0]

        async def no_time(seconds: float) -> None:
            pass

        texts, notes = [], []
        reader = ContainerLog(self._client, "demo", SOURCE, selection or LogSelection())
        async for batch in reader.follow(newest, no_time, self.connections):
            texts += [line.text for line in batch.lines]
            notes += [batch.note] if batch.note else []
        return texts, notes

    @property
    def queries(self) -> list[dict[str, str]]:
        """Of the requests for logs."""
        return [request.query for request in self.server.requests if request.path == LOG]


@pytest.fixture
async def reader() -> AsyncIterator[Reader]:
    time = FakeTime()
    server = ScriptedServer(time.clock)
    await server.start()
    client = KubeClient(Endpoint(server.url))
    yield Reader(client, server)
    await client.close()
    await server.stop()


async def test_a_log_that_breaks_off_is_resumed_at_its_last_line(reader: Reader) -> None:
    reader.server.on("GET", log(1, 2, complete=False), as_json(RUNNING), log(2, 3), as_json(RUNNING))
    reader.states = [RUNNING, RUNNING, RUNNING, ENDED]
    assert await reader.read() == (["1", "2", "3"], [])
    assert [query.get("sinceTime") for query in reader.queries] == [None, stamp(2)]


async def test_a_log_that_ends_while_its_container_runs_is_asked_for_again(reader: Reader) -> None:
    reader.server.on("GET", log(1), as_json(RUNNING), log(1, 2), as_json(RUNNING))
    reader.states = [RUNNING, RUNNING, RUNNING, ENDED]
    assert await reader.read() == (["1", "2"], [])


async def test_a_container_that_has_not_begun_is_waited_for(reader: Reader) -> None:
    reader.server.on("GET", refusal(400, "BadRequest", "is waiting to start"), log(1), as_json(RUNNING))
    reader.states = [RUNNING, RUNNING, RUNNING, ENDED]
    assert await reader.read() == (["1"], [])


async def test_a_log_whose_pod_is_gone_is_reported_as_lost(reader: Reader) -> None:
    reader.server.on("GET", refusal(404, "NotFound"))
    assert await reader.read() == ([], [LOST])


async def test_a_log_that_cannot_be_read_is_reported_with_the_reason(reader: Reader) -> None:
    reader.server.on(
        "GET", log(1, complete=False), as_json(RUNNING), *(refusal(500, "InternalError", "no") for _ in "xyz")
    )
    reader.states = [ENDED]
    assert await reader.read() == (["1"], ["its log could not be read: 500 InternalError: no"])


async def test_a_log_of_another_pod_of_the_same_name_is_not_taken_for_this_one(reader: Reader) -> None:
    reader.server.on("GET", log(1), as_json(pod(uid="another", statuses=[container()])))
    reader.states = [RUNNING, None]
    assert await reader.read() == ([], [LOST])


async def test_a_container_that_was_restarted_is_read_as_the_previous_one(reader: Reader) -> None:
    restarted = pod(statuses=[container(restarts=1)])
    # The answer may be of the next run, as the Pod says right after.
    reader.server.on("GET", log(7, 8), as_json(restarted), log(1, 2))
    reader.states = [RUNNING, restarted]
    assert await reader.read() == (["1", "2"], [])
    assert [query.get("previous") for query in reader.queries] == [None, "true"]


async def test_a_missing_permission_ends_it(reader: Reader) -> None:
    reader.server.on("GET", refusal(403, "Forbidden"))
    with pytest.raises(ForbiddenError):
        await reader.read()


async def test_only_the_first_answer_is_limited_by_the_flags(reader: Reader) -> None:
    reader.server.on("GET", log(5, complete=False), as_json(RUNNING), log(5, 6), as_json(RUNNING))
    reader.states = [RUNNING, RUNNING, RUNNING, ENDED]
    await reader.read(LogSelection(tail=1, since_seconds=60))
    first, second = reader.queries
    assert (first["tailLines"], first["sinceSeconds"]) == ("1", "60")
    assert {"tailLines", "sinceSeconds"}.isdisjoint(second)
    assert json.loads(json.dumps(second))["follow"] == "true"
