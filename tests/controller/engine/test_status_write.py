"""What the performer does about a status write, request by request; it never waits, since it holds a slot."""

from __future__ import annotations

from dataclasses import replace as replaced
from typing import TYPE_CHECKING, cast

import msgspec
import pytest
from msgspec.structs import replace

from frameworkcontroller.api.states import State
from frameworkcontroller.api.status import STATUS_DECODER, TaskRoleStatus, roles_digest
from frameworkcontroller.core.effects import (
    Done,
    Failed,
    Missing,
    Outcome,
    Refused,
    RolesSummary,
    StaleStatus,
    Subject,
    WriteStatus,
)
from frameworkcontroller.engine.requests.performer import Performer
from frameworkkube.errors import (
    ConflictError,
    InvalidError,
    KubeError,
    NotFoundError,
    ServerError,
    TooManyRequestsError,
)
from tests.controller.core.values import framework, task

if TYPE_CHECKING:
    from frameworkcontroller.api.status import FrameworkStatus
    from frameworkkube.http.client import KubeClient

SUBJECT = Subject("ns", "fw", "framework-uid")


def status(state: State) -> FrameworkStatus:
    plain = framework(state)
    return replace(plain, attempt_status=replace(plain.attempt_status, task_role_statuses=()))


BEFORE, WRITTEN, OTHER = status(State.PREPARING), status(State.RUNNING), status(State.DELETING)
EFFECT = WriteStatus(
    WRITTEN, RolesSummary(roles=(), order=(), ready=0, total=0, by_arrival=False, member_revision=1), 7, "41", BEFORE
)


def live(found: FrameworkStatus, version: str, uid: str = "framework-uid") -> bytes:
    metadata = {"name": "fw", "namespace": "ns", "uid": uid, "resourceVersion": version}
    return msgspec.json.encode({"metadata": metadata, "spec": {}, "status": found})


CONFLICT = ConflictError(409, "Conflict", "the object has been modified")
BUSY = TooManyRequestsError(429, "TooManyRequests", "x", retry_after_seconds=7.0)
SICK = ServerError(503, "ServiceUnavailable", "x")
LOST = KubeError("the connection was reset")
ROWS: dict[str, tuple[list[bytes | Exception], Outcome, list[str]]] = {
    "written": ([live(WRITTEN, "42")], Done(resource_version="42"), ["put 41"]),
    "overloaded": ([BUSY], Failed(str(BUSY), 7.0), ["put 41"]),
    "the server is sick": ([SICK], Failed(str(SICK)), ["put 41"]),
    "the answer was lost": ([LOST], Failed("the connection was reset"), ["put 41"]),
    "the answer was lost, and the write took effect": (
        [CONFLICT, live(WRITTEN, "42")],
        Done(resource_version="42"),
        ["put 41", "get"],
    ),
    "etcd finds it too large": (
        [ServerError(500, "InternalError", "etcdserver: request is too large")],
        Refused(413, "etcdserver: request is too large"),
        ["put 41"],
    ),
    "the client of etcd finds it too large": (
        [ServerError(500, "InternalError", "rpc error: trying to send message larger than max (2 vs. 1)")],
        Refused(413, "rpc error: trying to send message larger than max (2 vs. 1)"),
        ["put 41"],
    ),
    "somebody edits it all the time": (
        [CONFLICT, live(BEFORE, "44")] * 5,
        Failed("the Framework changed during each of several attempts to write its status"),
        ["put 41", "get"] + ["put 44", "get"] * 4,
    ),
    "the spec was edited": (
        [CONFLICT, live(BEFORE, "44"), live(WRITTEN, "45")],
        Done(resource_version="45"),
        ["put 41", "get", "put 44"],
    ),
    "another writer": ([CONFLICT, live(OTHER, "44")], StaleStatus(), ["put 41", "get"]),
    "another instance": ([CONFLICT, live(BEFORE, "44", "another")], Missing(), ["put 41", "get"]),
    "no Framework": ([NotFoundError(404, "NotFound", "x")], Missing(), ["put 41"]),
    "no Framework after a conflict": ([CONFLICT, NotFoundError(404, "NotFound", "x")], Missing(), ["put 41", "get"]),
    "it cannot be read after a conflict": (
        [CONFLICT, LOST],
        Failed("the connection was reset"),
        ["put 41", "get"],
    ),
    "refused": ([InvalidError(422, "Invalid", "too large")], Refused(422, "too large"), ["put 41"]),
}


class Client:
    """Answers each request with the next entry of a script."""

    def __init__(self, answers: list[bytes | Exception]) -> None:
        self.answers = list(answers)
        self.calls: list[str] = []
        self.statuses: list[bytes] = []

    async def replace(self, _path: str, body: bytes, **_options: object) -> bytes:
        self.statuses.append(msgspec.json.decode(body, type=dict[str, msgspec.Raw])["status"])
        return self._answer(f"put {msgspec.json.decode(body)['metadata']['resourceVersion']}")

    async def get(self, _path: str, **_options: object) -> bytes:
        return self._answer("get")

    def _answer(self, call: str) -> bytes:
        self.calls.append(call)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.mark.parametrize(("answers", "outcome", "calls"), ROWS.values(), ids=ROWS)
async def test_a_status_write_ends_with_its_outcome(
    answers: list[bytes | Exception], outcome: Outcome, calls: list[str]
) -> None:
    client = Client(answers)
    performer = Performer(cast("KubeClient", client))
    assert await performer.perform(SUBJECT, EFFECT) == outcome
    assert client.calls == calls
    assert client.answers == []


async def test_large_roles_are_known_again_by_a_digest_of_what_was_stored() -> None:
    tasks = tuple(task(State.RUNNING, index=index) for index in range(3000))
    written = replace(
        WRITTEN,
        attempt_status=replace(WRITTEN.attempt_status, task_role_statuses=(TaskRoleStatus("w", "u", None, tasks),)),
    )
    client = Client([live(WRITTEN, "42")])
    outcome = await Performer(cast("KubeClient", client)).perform(SUBJECT, replaced(EFFECT, status=written))
    assert isinstance(outcome, Done)
    stored = STATUS_DECODER.decode(client.statuses[0])
    assert stored.attempt_status.task_role_statuses is None
    assert outcome.roles == roles_digest(stored) is not None
    # Somebody has edited the spec: what is stored is known without being unpacked, so it need not be readable.
    unreadable = replace(
        stored, attempt_status=replace(stored.attempt_status, task_role_statuses_compressed="cannot be unpacked")
    )
    effect = replaced(EFFECT, previous=unreadable, previous_roles=roles_digest(unreadable))
    client = Client([CONFLICT, live(unreadable, "44"), live(WRITTEN, "45")])
    assert await Performer(cast("KubeClient", client)).perform(SUBJECT, effect) == Done(resource_version="45")
