"""Events on Frameworks: limited, counted when they repeat, and never an obstacle."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from frameworkcontroller.core.effects import Subject
from frameworkcontroller.core.events import KubeEvent
from frameworkcontroller.engine.observe import event_recorder
from frameworkcontroller.engine.observe.event_recorder import BURST, MESSAGE_CHARACTERS, REFILL_SECONDS, EventRecorder
from frameworkkube.errors import NotFoundError, ServerError
from tests.controller.engine.stubs import beside

SUBJECT = Subject("n", "fw", "u")
SLOW = KubeEvent("GangWaiting", "worker-1 is missing", warning=True)


class Client:
    """Remembers what was written; a call answers or raises what a test gives first."""

    def __init__(self, *answers: bytes | Exception) -> None:
        self.answers, self.written = list(answers), list[tuple[str, Any]]()

    async def create(self, path: str, body: bytes, **_more: Any) -> bytes:
        return self._answer("create", path, body)

    async def patch(self, path: str, body: bytes, **_more: Any) -> bytes:
        return self._answer("patch", path, body)

    def _answer(self, verb: str, path: str, body: bytes) -> bytes:
        self.written.append((f"{verb} {path.rpartition('/')[2]}", json.loads(body)))
        answer = self.answers.pop(0) if self.answers else metadata(f"fw.{len(self.written)}")
        if isinstance(answer, Exception):
            raise answer
        return answer


def metadata(name: str) -> bytes:
    return json.dumps({"metadata": {"name": name, "uid": "e", "resourceVersion": "1"}}).encode()


def recorder_of(client: Client) -> EventRecorder:
    return EventRecorder(cast("Any", client))


async def write(recorder: EventRecorder) -> None:
    """Let it write what waits."""
    async with beside(recorder.run()) as work:
        for _ in range(200):
            await asyncio.sleep(0)
        assert not work.done()


async def repeat(client: Client, times: int) -> list[str]:
    """Record an event so often, and return what was asked of the server."""
    recorder = recorder_of(client)
    for _ in range(times):
        recorder.record(SUBJECT, SLOW)
    await write(recorder)
    return [what for what, _ in client.written]


async def test_an_event_names_the_framework_and_a_repeated_one_raises_its_count() -> None:
    client = Client()
    assert await repeat(client, 3) == ["create events", "patch fw.1", "patch fw.1"]
    body, *again = (body for _, body in client.written)
    assert body["involvedObject"]["uid"] == "u"
    assert (body["type"], body["reason"], body["message"]) == ("Warning", SLOW.reason, SLOW.message)
    assert [change["count"] for change in again] == [2, 3]


async def test_an_event_that_the_server_has_forgotten_is_created_again() -> None:
    client = Client(metadata("old"), NotFoundError(404, "NotFound", "expired"))
    assert await repeat(client, 3) == ["create events", "patch old", "create events", "patch fw.3"]


async def test_a_failure_or_an_answer_that_cannot_be_decoded_costs_one_event() -> None:
    client = Client(ServerError(500, "InternalError", "no"), b"<html>", RuntimeError("a defect"))
    assert await repeat(client, 4) == ["create events"] * 4


async def test_a_framework_has_a_burst_and_then_one_event_in_five_minutes() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    recorder = EventRecorder(cast("Any", Client()), clock=lambda: now)
    for number in range(BURST + 5):
        recorder.record(SUBJECT, KubeEvent("Reason", f"message {number}"))
    assert recorder.dropped == 5
    recorder.record(Subject("n", "other", "v"), SLOW)
    assert recorder.dropped == 5
    now += timedelta(seconds=REFILL_SECONDS)
    recorder.record(SUBJECT, SLOW)
    recorder.record(SUBJECT, SLOW)
    assert recorder.dropped == 6


async def test_of_more_frameworks_than_are_remembered_a_namespace_has_a_burst_and_then_ten_events_a_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """4,200 gangs that said something now and then wrote 95 Events a second, for ever."""
    monkeypatch.setattr(event_recorder, "NAMESPACE_BURST", 50)
    now = datetime(2026, 1, 1, tzinfo=UTC)
    recorder = EventRecorder(cast("Any", Client()), clock=lambda: now)
    for seconds, number, dropped in ((0, 80, 30), (1, 20, 40)):
        now += timedelta(seconds=seconds)
        for one in range(number):
            recorder.record(Subject("n", "fw", f"{seconds}-{one}"), SLOW)
        assert recorder.dropped == dropped
    recorder.record(SUBJECT, SLOW)
    recorder.record(Subject("other", "fw", "u"), SLOW)
    assert recorder.dropped == 41


async def test_what_was_used_last_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_recorder, "REMEMBERED", 10)
    client = Client()
    recorder = recorder_of(client)
    for number in range(BURST + 5):
        recorder.record(SUBJECT, SLOW)
        recorder.record(Subject("n", f"other-{number}", f"uid-{number}"), SLOW)
        await write(recorder)
    assert recorder.dropped == 5
    ours = [change["count"] for what, change in client.written if what == "patch fw.1"]
    assert ours == list(range(2, BURST + 1))


async def test_a_long_message_is_cut_before_it_is_remembered() -> None:
    client = Client()
    recorder = recorder_of(client)
    for end in "ab":
        recorder.record(SUBJECT, KubeEvent("PodCreationFailed", "x" * MESSAGE_CHARACTERS + end))
    await write(recorder)
    (_, body), (again, _) = client.written
    assert body["message"] == "x" * MESSAGE_CHARACTERS
    assert again == "patch fw.1"


async def test_events_of_one_namespace_leave_those_of_others_alone() -> None:
    client = Client()
    recorder = recorder_of(client)
    for number in range(event_recorder.WAITING + 100):
        recorder.record(Subject("hostile", f"fw-{number}", f"u-{number}"), SLOW)
    recorder.record(SUBJECT, SLOW)
    await write(recorder)
    places = [place for place, (_, body) in enumerate(client.written) if body["metadata"]["namespace"] == "n"]
    assert places == [1], "namespaces take turns"
    assert recorder.dropped == 100
