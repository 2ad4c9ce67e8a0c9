"""What is wrong with one Framework stays with it: it waits, says so, and is tried again; the other one goes on."""

import asyncio
import contextlib
import gzip
import json
import re
from base64 import b64encode
from collections.abc import Generator
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from frameworkcontroller.api.states import State
from frameworkcontroller.api.stored_roles import (
    MAX_COMMAS,
    MAX_OBJECTS,
    MAX_ROLES_BYTES,
    MAX_STORED,
    UnreadableStatusError,
    roles_of,
)
from frameworkcontroller.core.effects import Done, Effect, Outcome, StaleStatus, Subject, WriteStatus
from frameworkcontroller.core.reconcile.decision import Decision
from frameworkcontroller.core.reconcile.reconciler import FrameworkReconciler
from frameworkcontroller.engine import quarantine, workqueue
from frameworkcontroller.engine.engine import Engine
from frameworkkube.errors import NotFoundError
from tests.controller.core.values import framework as status_of
from tests.controller.core.values import task
from tests.controller.engine.stubs import Client, framework, running, until
from tests.kube.virtualtime import in_virtual_time
from tests.support.rows import each


def packed(value: object) -> str:
    return b64encode(gzip.compress(msgspec.json.encode(value), 1)).decode()


TASKS = [task(State.COMPLETED)] * (MAX_STORED + 1)
LONG = msgspec.to_builtins(TASKS[0].attempt_status) | {"podName": "x" * 1025}
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
    "not a name: too long": packed([{"name": "x" * 1025, "instanceUID": "u"}]),
    "not a Pod's name: too long": packed(
        [{"name": "a", "instanceUID": "u", "taskStatuses": [{**msgspec.to_builtins(TASKS[0]), "attemptStatus": LONG}]}]
    ),
    "too many objects": packed([{}] * (MAX_OBJECTS + 1)),
    "too many values": packed([[1] * (MAX_COMMAS + 2)]),
    "a bomb": b64encode(gzip.compress(b"[" + b" " * (MAX_ROLES_BYTES + 1) + b"]", 1)).decode(),
}


def named(name: str, version: int = 1, generation: int = 1) -> dict[str, Any]:
    return framework(version, f"uid-{name}", generation, name)


def stored(compressed: object) -> dict[str, Any]:
    """Return a status whose compressed roles are these."""
    status: dict[str, Any] = msgspec.to_builtins(status_of(State.RUNNING))
    status["attemptStatus"] |= {"taskRoleStatuses": None, "taskRoleStatusesCompressed": compressed}
    return status


def unreadable(name: str = "bad", version: int = 1, compressed: str = "%%%") -> dict[str, Any]:
    return named(name, version) | {"status": stored(compressed)}


class TwoFrameworks(Client):
    """Lists `bad`, as a test has it, and `good`."""

    def __init__(self, bad: dict[str, Any]) -> None:
        super().__init__(bad, named("good"))


class Performer:
    """Performs everything for `good`; what it does for `bad`, a test says."""

    def __init__(self, for_bad: Outcome | Exception | None = None) -> None:
        self.for_bad, self.performed = for_bad, list[tuple[str, Effect]]()

    async def perform(self, subject: Subject, effect: Effect) -> Outcome:
        self.performed.append((subject.name, effect))
        for_bad = self.for_bad if subject.name == "bad" else None
        if isinstance(for_bad, Exception):
            raise for_bad
        if for_bad is not None and isinstance(effect, WriteStatus):
            self.for_bad = None
            return for_bad
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


async def works(performer: Performer, name: str) -> None:
    """Wait until something is created for a Framework."""
    await until(lambda: "CreateConfigMap" in performer.of(name))


@pytest.mark.parametrize("compressed", COMPRESSED.values(), ids=COMPRESSED)
@in_virtual_time
async def test_a_compressed_status_that_cannot_be_read_keeps_only_its_framework_waiting(compressed: str) -> None:
    client, performer = TwoFrameworks(unreadable(compressed=compressed)), Performer()
    async with running(client, performer) as engine:
        await works(performer, "good")
        await until(lambda: len(client.at) > 2)
        assert performer.of("bad") == []
        event, about = client.recorded[0], client.recorded[0]["involvedObject"]
        assert (event["reason"], event["type"]) == ("Quarantined", "Warning")
        assert (about["name"], about["uid"]) == ("bad", "uid-bad")
        assert "frameworkcontroller_quarantined_frameworks 1.0" in engine.metrics.text().decode()


@each("case", [name for name in COMPRESSED if name[:3] not in {"nes", "not"}])
def test_compressed_roles_that_are_corrupt_raise_one_error(case: str) -> None:
    status = msgspec.convert(stored(COMPRESSED[case]), type(status_of(State.RUNNING)))
    with pytest.raises(UnreadableStatusError, match="attemptStatus"):
        roles_of(status)


@in_virtual_time
async def test_the_back_off_grows_to_five_minutes() -> None:
    client, times = TwoFrameworks(unreadable()), list[float]()
    async with running(client, Performer()):
        for count in range(1, 11):
            await read(client, count)
            times.append(asyncio.get_running_loop().time())
    gaps = [round(later - earlier) for earlier, later in pairwise(times)]
    assert gaps == [10, 20, 40, 80, 160, 300, 300, 300, 300]


@in_virtual_time
async def test_an_edit_ends_the_wait() -> None:
    client, performer = TwoFrameworks(unreadable()), Performer()
    async with running(client, performer):
        for count in range(1, 9):
            await read(client, count)
        client.shows("MODIFIED", unreadable(version=7, compressed="!!!"))
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
    async with running(client, performer) as engine:
        await works(performer, "good")
        await until(lambda: len(performer.of("bad")) > 2)
        assert "a defect" in client.recorded[0]["message"]
        assert b'controller_runtime_reconcile_errors_total{controller="framework"}' in engine.metrics.text()
        performer.for_bad = None
        await works(performer, "bad")
        assert kept_of(engine) == (2, 1)
        client.shows("DELETED", named("bad", version=9))
        await asyncio.sleep(60)
        assert kept_of(engine) == (1, 0)


@in_virtual_time
async def test_those_of_one_namespace_are_read_few_at_a_time_and_others_do_not_wait_for_them() -> None:
    hostile = [unreadable(f"bad{number}") for number in range(50)]
    other = unreadable("other")
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
    async with running(client, Performer()):
        await until(lambda: len(client.at) > 50)
        assert most == quarantine.PLACES
        assert any("/namespaces/m/" in path for path in client.at[: quarantine.PLACES + 1])


@in_virtual_time
async def test_a_framework_that_is_unreadable_when_it_is_read_again_costs_only_itself() -> None:
    client, performer = TwoFrameworks(named("bad")), Performer(StaleStatus())
    client.reads = [unreadable(version=5, compressed=COMPRESSED["cut off"])]
    async with running(client, performer):
        await works(performer, "bad")
        await works(performer, "good")
        assert client.recorded[0]["reason"] == "Quarantined"


@in_virtual_time
async def test_a_framework_that_is_deleted_in_quarantine_is_forgotten() -> None:
    client, performer = TwoFrameworks(unreadable()), Performer()
    async with running(client, performer) as engine:
        for count in range(1, 9):
            await read(client, count)
        client.frameworks = (named("bad", version=10), named("good"))
        client.shows("DELETED", unreadable(version=9))
        client.shows("ADDED", named("bad", version=10))
        await works(performer, "bad")
        assert "frameworkcontroller_quarantined_frameworks 0.0" in engine.metrics.text().decode()


class BehindAProxy(TwoFrameworks):
    """Answers the first read of `bad` with a page that says 404."""

    async def get(self, path: str, **more: Any) -> bytes:
        if path.endswith("bad") and path not in self.at:
            self.at.append(path)
            raise NotFoundError(404, "Not Found", "<html>")
        self.frameworks = (named("bad", version=2), named("good"))
        return await super().get(path, **more)


@in_virtual_time
async def test_a_page_of_a_proxy_is_no_deletion_of_a_framework_that_is_read() -> None:
    client, performer = BehindAProxy(unreadable()), Performer()
    async with running(client, performer):
        await until(lambda: client.at)
        await works(performer, "bad")


class DeletedWhileRead(TwoFrameworks):
    """Answers the first read of `bad`, which is deleted and shown so before the answer arrives."""

    async def get(self, path: str, **more: Any) -> bytes:
        if path.endswith("bad") and path in self.at:
            self.at.append(path)
            raise NotFoundError(404, "NotFound", "gone", status={"code": 404})
        answer = await super().get(path, **more)
        self.shows("DELETED", named("bad", version=9))
        await asyncio.sleep(1)
        return answer


@pytest.mark.parametrize("why", ["quarantine", "a stale status"])
@in_virtual_time
async def test_a_framework_that_is_deleted_while_it_is_read_leaves_no_reconciler(why: str) -> None:
    is_stale = why == "a stale status"
    client = DeletedWhileRead(named("bad") if is_stale else unreadable())
    performer = Performer(StaleStatus() if is_stale else None)
    client.reads = [] if is_stale else [named("bad", version=8)]
    async with running(client, performer) as engine:
        await until(lambda: client.at)
        await asyncio.sleep(60)
        assert kept_of(engine) == (1, 0)
        client.shows("ADDED", named("bad", version=10))
        await works(performer, "bad")
        client.shows("DELETED", named("bad", version=11))
        await asyncio.sleep(60)
        assert kept_of(engine) == (1, 0)


@in_virtual_time
async def test_a_framework_that_cannot_be_decoded_at_all_gets_an_event_and_is_counted() -> None:
    bad = named("bad")
    bad["metadata"]["generation"] = "x"
    client, performer = TwoFrameworks(bad), Performer()
    async with running(client, performer) as engine:
        await works(performer, "good")
        await until(lambda: client.recorded)
        assert (client.recorded[0]["reason"], client.recorded[0]["involvedObject"]["uid"]) == ("Unreadable", "uid-bad")
        assert 'frameworkcontroller_undecodable_objects{resource="frameworks"} 1.0' in engine.metrics.text().decode()
        client.shows("MODIFIED", named("bad", version=9, generation=2))
        await works(performer, "bad")
        assert 'frameworkcontroller_undecodable_objects{resource="frameworks"} 0.0' in engine.metrics.text().decode()


@in_virtual_time
async def test_a_long_pass_over_one_framework_makes_way_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes on where it was; no outcome comes between."""
    said, steps, applied = list[str](), FrameworkReconciler.steps, FrameworkReconciler.apply_outcome

    def long_steps(self: FrameworkReconciler, *what: Any, **more: Any) -> Generator[None, None, Decision]:
        for number in range(5 if self.name == "bad" else 0):
            said.append(f"bad {number}")
            yield
        said.extend(["good"] if self.name == "good" else [])
        return (yield from steps(self, *what, **more))

    def apply(self: FrameworkReconciler, *what: Any) -> None:
        said.append(f"outcome for {self.name}")
        applied(self, *what)

    monkeypatch.setattr(FrameworkReconciler, "steps", long_steps)
    monkeypatch.setattr(FrameworkReconciler, "apply_outcome", apply)
    monkeypatch.setattr(workqueue, "DECIDING_SECONDS", -1.0)
    client, performer = TwoFrameworks(named("bad")), Performer()
    async with running(client, performer):
        await works(performer, "bad")
        await works(performer, "good")
    assert said[:2] == ["bad 0", "good"]
    of_bad = "".join("o" if one.startswith("outcome") else one[-1] for one in said if "bad" in one)
    assert re.fullmatch("(01234o*)+0?1?2?3?", of_bad), of_bad
