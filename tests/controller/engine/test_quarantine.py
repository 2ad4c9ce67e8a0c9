"""What is wrong with one Framework stays with it: it waits, says so, and is tried again; the other one goes on."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import re
from base64 import b64encode
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from frameworkcontroller.api.states import State
from frameworkcontroller.api.status import (
    MAX_COMMAS,
    MAX_OBJECTS,
    MAX_ROLES_BYTES,
    MAX_STORED,
    UnreadableStatusError,
    roles_of,
)
from frameworkcontroller.core.effects import Done, Effect, Outcome, StaleStatus, WriteStatus
from frameworkcontroller.core.reconcile.reconciler import FrameworkReconciler
from frameworkcontroller.engine import engine as engine_module
from frameworkcontroller.engine import quarantine
from frameworkkube.errors import NotFoundError
from tests.controller.core.values import framework as status_of
from tests.controller.core.values import task
from tests.controller.engine import test_engine
from tests.controller.engine.test_engine import Client, running, until
from tests.kube.virtualtime import in_virtual_time

if TYPE_CHECKING:
    from collections.abc import Generator

    from frameworkcontroller.core.effects import Subject
    from frameworkcontroller.core.reconcile.decision import Decision
    from frameworkcontroller.engine.engine import Engine


def packed(value: object) -> str:
    return b64encode(gzip.compress(msgspec.json.encode(value), 1)).decode()


TASKS = [task(State.COMPLETED)] * (MAX_STORED + 1)
GZIPPED = gzip.compress(b"[" + b"1," * 5000 + b"1]")
COMPRESSED = {
    "not base64": "%%%",
    "not gzip": b64encode(b"plain").decode(),
    "cut off": b64encode(GZIPPED[:-9]).decode(),
    "corrupt": b64encode(GZIPPED[:-8] + b"12345678").decode(),
    "not JSON": b64encode(gzip.compress(b"<html>")).decode(),
    "nested deeply": b64encode(gzip.compress(b"[" * 100_000)).decode(),
    "too many Tasks": packed([{"name": "a", "instanceUID": "u", "taskStatuses": TASKS}]),
    "too many TaskRoles": packed([{"name": "a", "instanceUID": "u"}] * (MAX_STORED + 1)),
    "too many objects": packed([{}] * (MAX_OBJECTS + 1)),
    "too many values": packed([[1] * (MAX_COMMAS + 2)]),
    "a bomb": b64encode(gzip.compress(b"[" + b" " * (MAX_ROLES_BYTES + 1) + b"]", 1)).decode(),
}


def named(name: str, version: int = 1, generation: int = 1) -> dict[str, Any]:
    made = test_engine.framework(version=version, uid=f"uid-{name}")
    made["metadata"] |= {"name": name, "generation": generation}
    return made


def stored(compressed: object) -> dict[str, Any]:
    """Return a status whose compressed roles are these."""
    status: dict[str, Any] = msgspec.to_builtins(status_of("AttemptRunning"))
    status["attemptStatus"] |= {"taskRoleStatuses": None, "taskRoleStatusesCompressed": compressed}
    return status


class TwoFrameworks(Client):
    """Lists `bad`, as a test has it, and `good`; reads answer what is listed, unless a test says otherwise."""

    def __init__(self, bad: dict[str, Any]) -> None:
        super().__init__(bad, named("good"))
        self.at: list[str] = []
        self.recorded: list[dict[str, Any]] = []

    async def get(self, path: str, **_more: Any) -> bytes:
        self.at.append(path)
        if self.reads:
            return json.dumps(self.reads.pop(0)).encode()
        return json.dumps(next(one for one in self.frameworks if path.endswith(one["metadata"]["name"]))).encode()

    async def create(self, path: str, body: bytes, **_more: Any) -> bytes:
        assert path == "/api/v1/namespaces/n/events"
        self.recorded.append(json.loads(body))
        return json.dumps(named("event")).encode()

    async def patch(self, _path: str, body: bytes, **_more: Any) -> bytes:
        self.recorded.append(json.loads(body))
        return json.dumps(named("event")).encode()


class Performer:
    """Performs everything for `good`; what it does for `bad`, a test says."""

    def __init__(self, for_bad: Outcome | Exception | None = None) -> None:
        self.for_bad, self.performed = for_bad, list[tuple[str, Effect]]()

    async def perform(self, subject: Subject, effect: Effect) -> Outcome:
        self.performed.append((subject.name, effect))
        if subject.name == "bad" and isinstance(self.for_bad, Exception):
            raise self.for_bad
        if subject.name == "bad" and self.for_bad is not None and isinstance(effect, WriteStatus):
            outcome, self.for_bad = self.for_bad, None
            return outcome
        return Done(uid="made", resource_version=str(100 + len(self.performed)))

    def of(self, name: str) -> list[str]:
        return [type(effect).__name__ for at, effect in self.performed if at == name]


async def read(client: TwoFrameworks, times: int) -> None:
    """Wait until Frameworks were read so often, for more than the longest quarantine."""
    for _ in range(2):
        if len(client.at) < times:
            with contextlib.suppress(AssertionError):
                await until(lambda: len(client.at) >= times)
    assert len(client.at) == times


def kept_of(engine: Engine) -> tuple[int, int]:
    """How many reconcilers, and how many Frameworks that raised, the engine keeps; no metric counts them."""
    return len(engine._works), len(engine._reloader._cases)


async def assert_good_works(performer: Performer) -> None:
    await until(lambda: "CreateConfigMap" in performer.of("good"))


@pytest.mark.parametrize("compressed", COMPRESSED.values(), ids=COMPRESSED)
@in_virtual_time
async def test_a_compressed_status_that_cannot_be_read_keeps_only_its_framework_waiting(compressed: str) -> None:
    client, performer = TwoFrameworks(named("bad") | {"status": stored(compressed)}), Performer()
    async with running(client, performer) as engine:  # type: ignore[arg-type]
        await assert_good_works(performer)
        await until(lambda: len(client.at) > 2)
        assert performer.of("bad") == []
        event = client.recorded[0]
        assert (event["reason"], event["type"]) == ("Quarantined", "Warning")
        assert event["involvedObject"]["name"] == "bad"
        assert event["involvedObject"]["uid"] == "uid-bad"
        metrics = engine.metrics.text().decode()
        assert "frameworkcontroller_quarantined_frameworks 1.0" in metrics


@pytest.mark.parametrize("case", [name for name in COMPRESSED if name[:3] not in {"nes", "not"}])
def test_compressed_roles_that_are_corrupt_raise_one_error(case: str) -> None:
    compressed = COMPRESSED[case]
    status = msgspec.convert(stored(compressed), type(status_of("AttemptRunning")))
    with pytest.raises(UnreadableStatusError, match="attemptStatus"):
        roles_of(status)


@in_virtual_time
async def test_the_back_off_grows_to_five_minutes() -> None:
    client, performer = TwoFrameworks(named("bad") | {"status": stored("%%%")}), Performer()
    loop = asyncio.get_running_loop()
    async with running(client, performer):  # type: ignore[arg-type]
        times: list[float] = []
        for count in range(1, 11):
            await read(client, count)
            times.append(loop.time())
        gaps = [round(later - earlier) for earlier, later in pairwise(times)]
        assert gaps == [10, 20, 40, 80, 160, 300, 300, 300, 300]


@in_virtual_time
async def test_an_edit_ends_the_wait() -> None:
    client, performer = TwoFrameworks(named("bad") | {"status": stored("%%%")}), Performer()
    async with running(client, performer):  # type: ignore[arg-type]
        for count in range(1, 9):
            await read(client, count)
        client.shows("MODIFIED", named("bad", version=7) | {"status": stored("!!!")})
        await asyncio.sleep(20)
        assert len(client.at) == 8
        mended = named("bad", version=9, generation=2)
        client.frameworks = (mended, named("good"))
        client.shows("MODIFIED", mended)
        await asyncio.sleep(20)
        assert len(client.at) == 9
        assert "CreateConfigMap" in performer.of("bad")


@in_virtual_time
async def test_an_effect_that_raises_costs_only_its_framework_and_is_forgotten_with_its_deletion() -> None:
    client, performer = TwoFrameworks(named("bad")), Performer(ZeroDivisionError("a defect"))
    async with running(client, performer) as engine:  # type: ignore[arg-type]
        await assert_good_works(performer)
        await until(lambda: len(performer.of("bad")) > 2)
        assert "a defect" in client.recorded[0]["message"]
        assert b'controller_runtime_reconcile_errors_total{controller="framework"}' in engine.metrics.text()
        performer.for_bad = None
        await until(lambda: "CreateConfigMap" in performer.of("bad"))
        assert kept_of(engine) == (2, 1)
        client.shows("DELETED", named("bad", version=9))
        await asyncio.sleep(60)
        assert kept_of(engine) == (1, 0)


@in_virtual_time
async def test_those_of_one_namespace_are_read_few_at_a_time_and_others_do_not_wait_for_them() -> None:
    hostile = [named(f"bad{number}") | {"status": stored("%%%")} for number in range(50)]
    other = named("other") | {"status": stored("%%%")}
    other["metadata"]["namespace"] = "m"
    client, reading, most = TwoFrameworks(named("bad")), list[str](), 0

    async def get(path: str, **_more: Any) -> bytes:
        nonlocal most
        reading.append(path)
        most = max(most, sum("/namespaces/n/" in one for one in reading))
        client.at.append(path)
        await asyncio.sleep(1)
        reading.remove(path)
        return json.dumps(next(one for one in (*hostile, other) if path.endswith(one["metadata"]["name"]))).encode()

    client.frameworks, client.get = (*hostile, other), get  # type: ignore[method-assign]
    async with running(client, Performer()):  # type: ignore[arg-type]
        await until(lambda: len(client.at) > 50)
        assert most == quarantine.PLACES
        assert any("/namespaces/m/" in path for path in client.at[: quarantine.PLACES + 1])


@in_virtual_time
async def test_a_framework_that_is_unreadable_when_it_is_read_again_costs_only_itself() -> None:
    client, performer = TwoFrameworks(named("bad")), Performer(StaleStatus())
    client.reads = [named("bad", version=5) | {"status": stored(b64encode(GZIPPED[:-9]).decode())}]
    async with running(client, performer):  # type: ignore[arg-type]
        await until(lambda: "CreateConfigMap" in performer.of("bad"))
        await assert_good_works(performer)
        assert client.recorded[0]["reason"] == "Quarantined"


@in_virtual_time
async def test_a_framework_that_is_deleted_in_quarantine_is_forgotten() -> None:
    bad = named("bad") | {"status": stored("%%%")}
    client, performer = TwoFrameworks(bad), Performer()
    async with running(client, performer) as engine:  # type: ignore[arg-type]
        for count in range(1, 9):
            await read(client, count)
        client.shows("DELETED", bad | {"metadata": bad["metadata"] | {"resourceVersion": "9"}})
        client.shows("ADDED", named("bad", version=10, generation=1))
        client.frameworks = (named("bad", version=10), named("good"))
        await until(lambda: "CreateConfigMap" in performer.of("bad"))
        assert "frameworkcontroller_quarantined_frameworks 0.0" in engine.metrics.text().decode()


class DeletedWhileRead(TwoFrameworks):
    """Answers the first read of `bad`, and has deleted it and shown that before the answer arrives."""

    async def get(self, path: str, **more: Any) -> bytes:
        if path.endswith("bad") and path in self.at:
            self.at.append(path)
            raise NotFoundError(404, "NotFound", "gone")
        answer = await super().get(path, **more)
        self.shows("DELETED", named("bad", version=9))
        await asyncio.sleep(1)
        return answer


@pytest.mark.parametrize("why", ["quarantine", "a stale status"])
@in_virtual_time
async def test_a_framework_that_is_deleted_while_it_is_read_leaves_no_reconciler(why: str) -> None:
    if why == "quarantine":
        client = DeletedWhileRead(named("bad") | {"status": stored("%%%")})
        client.reads, performer = [named("bad", version=8)], Performer()
    else:
        client, performer = DeletedWhileRead(named("bad")), Performer(StaleStatus())
    async with running(client, performer) as engine:  # type: ignore[arg-type]
        await until(lambda: client.at)
        await asyncio.sleep(60)
        assert kept_of(engine) == (1, 0)
        client.shows("ADDED", named("bad", version=10))
        await until(lambda: "CreateConfigMap" in performer.of("bad"))
        client.shows("DELETED", named("bad", version=11))
        await asyncio.sleep(60)
        assert kept_of(engine) == (1, 0)


@in_virtual_time
async def test_a_framework_that_cannot_be_decoded_at_all_gets_an_event_and_is_counted() -> None:
    bad = named("bad")
    bad["metadata"]["generation"] = "x"
    client, performer = TwoFrameworks(bad), Performer()
    async with running(client, performer) as engine:  # type: ignore[arg-type]
        await assert_good_works(performer)
        await until(lambda: client.recorded)
        assert (client.recorded[0]["reason"], client.recorded[0]["involvedObject"]["uid"]) == ("Unreadable", "uid-bad")
        assert 'frameworkcontroller_undecodable_objects{resource="frameworks"} 1.0' in engine.metrics.text().decode()
        client.shows("MODIFIED", named("bad", version=9, generation=2))
        await until(lambda: "CreateConfigMap" in performer.of("bad"))
        assert 'frameworkcontroller_undecodable_objects{resource="frameworks"} 0.0' in engine.metrics.text().decode()


@in_virtual_time
async def test_a_long_pass_over_one_framework_makes_way_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes on where it was; no outcome comes between."""
    said: list[str] = []
    steps = FrameworkReconciler.steps
    applied = FrameworkReconciler.apply_outcome

    def long_steps(self: FrameworkReconciler, *what: Any, **more: Any) -> Generator[None, None, Decision]:
        if self.name == "bad":
            for number in range(5):
                said.append(f"bad {number}")
                yield
        else:
            said.append("good")
        return (yield from steps(self, *what, **more))

    def apply(self: FrameworkReconciler, *what: Any) -> None:
        said.append(f"outcome for {self.name}")
        applied(self, *what)

    monkeypatch.setattr(FrameworkReconciler, "steps", long_steps)
    monkeypatch.setattr(FrameworkReconciler, "apply_outcome", apply)
    monkeypatch.setattr(engine_module, "DECIDING_SECONDS", -1.0)
    client, performer = TwoFrameworks(named("bad")), Performer()
    async with running(client, performer):  # type: ignore[arg-type]
        await until(lambda: "CreateConfigMap" in performer.of("bad"))
        await until(lambda: "CreateConfigMap" in performer.of("good"))
    assert said[:2] == ["bad 0", "good"]
    of_bad = "".join("o" if one.startswith("outcome") else one[-1] for one in said if "bad" in one)
    assert re.fullmatch("(01234o*)+0?1?2?3?", of_bad), of_bad
