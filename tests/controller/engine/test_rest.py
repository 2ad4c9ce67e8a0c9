"""A Framework at rest: the engine keeps an outline of it, and deletes it as it was seen when its time is over."""

from __future__ import annotations

import asyncio
import gc
import json
import tracemalloc
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from msgspec.structs import replace

from frameworkcontroller.api.framework import FRAMEWORK_DECODER, Framework
from frameworkcontroller.api.states import State
from frameworkcontroller.core.effects import (
    DeleteFramework,
    Done,
    Effect,
    Failed,
    Missing,
    Outcome,
    StaleStatus,
    WriteStatus,
)
from frameworkcontroller.core.policies import shares
from frameworkcontroller.core.policies.role import FRAMEWORK, ROLE
from frameworkcontroller.engine import engine
from frameworkcontroller.engine.actions import LARGE_STATUS_TASKS, Work
from frameworkcontroller.engine.beginning import LONGEST_LOOK_SECONDS, PLACES, Beginning
from frameworkcontroller.engine.cache.outline import Outline, outline_of
from frameworkcontroller.engine.config.settings import Settings
from frameworkcontroller.engine.rest import AGAIN_SECONDS, SLOTS
from tests.controller.core.values import ended, task
from tests.controller.core.values import framework as status_of
from tests.controller.engine.lines import Lines
from tests.controller.engine.test_engine import Client, Performer, framework, running, until
from tests.kube.virtualtime import in_virtual_time

if TYPE_CHECKING:
    from frameworkcontroller.core.effects import Subject

SINCE = datetime(2026, 1, 1, tzinfo=UTC)
BYTES = 2048
"""Of an outline, at most."""


def completed(generation: int = 1, ttl: int | None = 100, tasks: int = 2, **more: Any) -> dict[str, Any]:
    """A Framework as it is stored once it is Completed."""
    status = replace(status_of(State.COMPLETED), transition_time=SINCE, observed_generation=1)
    done = [task(State.COMPLETED, ended(0), index=index) for index in range(tasks)]
    role = {"name": "worker", "instanceUID": "r", "taskStatuses": done}
    stored = msgspec.to_builtins(status)
    stored["attemptStatus"]["taskRoleStatuses"] = msgspec.to_builtins([role])
    whole = framework(version=5, generation=generation)
    whole["spec"] = whole["spec"] | {"ttlSecondsAfterFinished": ttl}
    whole["metadata"] |= more
    return whole | {"status": stored}


def decoded(document: dict[str, Any]) -> Framework:
    return FRAMEWORK_DECODER.decode(json.dumps(document))


def clock() -> datetime:
    """The time of day in virtual time: ten seconds after the Framework was Completed, at first."""
    return SINCE + timedelta(seconds=asyncio.get_running_loop().time() - 990)


def test_an_outline_says_who_and_until_when() -> None:
    whole = decoded(completed())
    outline = outline_of(whole)
    assert outline is not None
    assert outline.metadata == replace(whole.metadata, creation_timestamp=None)
    assert (outline.since, outline.ttl_seconds) == (SINCE, 100)
    assert outline_of(outline) is outline


NOT_AT_REST = {
    "edited since": completed(generation=2),
    "not Completed and being deleted": framework(generation=1)
    | {"status": completed()["status"] | {"state": "AttemptCreationPending"}}
    | {"metadata": completed(deletionTimestamp="2026-01-01T00:00:05Z")["metadata"]},
    "without a status": framework(),
    "not Completed": framework() | {"status": completed()["status"] | {"state": "AttemptCompleted"}},
    "Completed in words only": framework()
    | {"status": completed()["status"] | {"state": "AttemptRunning", "ready": "Completed"}},
}


@pytest.mark.parametrize("document", NOT_AT_REST.values(), ids=NOT_AT_REST)
def test_of_any_other_there_is_no_outline(document: dict[str, Any]) -> None:
    assert outline_of(decoded(document)) is None


def test_whatever_raises_the_framework_is_kept_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_found: Framework) -> None:
        raise UnicodeDecodeError("utf-8", b"x", 0, 1, "no text")

    monkeypatch.setattr(engine, "outline_of", fails)
    whole = decoded(completed())
    made = engine.Engine(Client(), Performer(), Settings().core)  # type: ignore[arg-type]
    assert made.keep_framework(whole) is whole


def test_an_outline_takes_little_memory_whatever_the_framework_takes() -> None:
    document = json.dumps(completed(tasks=500, annotations={"x": "y" * 100_000})).encode()
    gc.collect()
    tracemalloc.start()
    try:
        outlines = [outline_of(FRAMEWORK_DECODER.decode(document)) for _ in range(50)]
        assert all(isinstance(one, Outline) and one.metadata.name for one in outlines)
        gc.collect()
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert used / len(outlines) < BYTES


@in_virtual_time
async def test_one_that_is_found_at_rest_is_counted_and_left_alone_until_its_time_is_over() -> None:
    client, performer = Client(completed()), Performer()
    async with running(client, performer, clock=clock) as engine:
        await asyncio.sleep(80)
        assert performer.performed == []
        assert b'frameworkcontroller_frameworks{state="Completed"} 1.0' in engine.metrics.text()
        await asyncio.sleep(20)
        assert performer.performed == [DeleteFramework("5")]
        assert b'frameworkcontroller_frameworks{state="Completed"} 1.0' in engine.metrics.text()
        client.shows("DELETED", completed())
        await until(lambda: b'frameworkcontroller_frameworks{state="Completed"} 0.0' in engine.metrics.text())


class Slow(Performer):
    """The API server, which takes a second for each deletion and answers as a test says."""

    def __init__(self, answer: Outcome) -> None:
        super().__init__()
        self.answer, self.most, self._now = answer, 0, 0

    async def perform(self, subject: Subject, effect: Effect) -> Outcome:
        self.performed.append(effect)
        self._now += 1
        self.most = max(self.most, self._now)
        await asyncio.sleep(1)
        self._now -= 1
        return self.answer


@in_virtual_time
async def test_of_many_whose_time_is_over_few_are_deleted_at_a_time_and_none_is_read() -> None:
    """100 of 10,000 Tasks were read at once: the memory of the controller went to 1.4 GiB."""
    many = [completed(ttl=5, name=f"fw{number}", uid=f"u{number}") for number in range(100)]
    client, performer = Client(*many), Slow(Failed("the server is busy"))
    client.reads = []
    async with running(client, performer, clock=clock):
        await asyncio.sleep(40)
        assert (performer.performed, performer.most) == ([DeleteFramework("5")] * 100, SLOTS)
        await asyncio.sleep(AGAIN_SECONDS - 60)
        assert len(performer.performed) == 100
        await asyncio.sleep(60)
        assert len(performer.performed) == 200, "what failed is tried again"


@in_virtual_time
async def test_one_that_is_held_by_a_finalizer_is_kept_in_outline_and_left_alone() -> None:
    held = completed(generation=2, ttl=5, deletionTimestamp="2026-01-01T00:00:05Z")
    client, performer = Client(held), Performer()
    async with running(client, performer, clock=clock) as engine:
        await asyncio.sleep(2 * AGAIN_SECONDS)
        assert performer.performed == []
        assert b'frameworkcontroller_frameworks{state="Completed"} 1.0' in engine.metrics.text()
        assert b'frameworkcontroller_tasks{state="Completed"} 0.0' in engine.metrics.text()


@in_virtual_time
async def test_one_that_was_edited_before_it_could_be_deleted_is_kept_as_it_asks() -> None:
    client, performer = Client(completed(ttl=5)), Slow(Missing())
    async with running(client, performer, clock=clock):
        await asyncio.sleep(0.5)
        client.shows("MODIFIED", completed(resourceVersion="6", ttl=5000))
        await asyncio.sleep(2 * AGAIN_SECONDS)
        assert performer.performed == [DeleteFramework("5")]


@in_virtual_time
async def test_one_whose_edit_cannot_be_read_while_its_deletion_waits_ends_nothing() -> None:
    many = [completed(ttl=5, name=f"fw{number}", uid=f"u{number}") for number in range(SLOTS + 1)]
    client, performer = Client(*many), Slow(Done())
    async with running(client, performer, clock=clock) as engine:
        await asyncio.sleep(0.5)
        odd = completed(ttl=5, name=f"fw{SLOTS}", uid=f"u{SLOTS}", resourceVersion="6")
        odd["status"]["transitionTime"] = "2026-01-01T00:00:00"  # without a zone
        client.shows("MODIFIED", odd)
        await until(lambda: b"frameworkcontroller_quarantined_frameworks 1.0" in engine.metrics.text())
        await asyncio.sleep(20)
        client.shows("ADDED", completed(ttl=5, name="next", uid="next"))
        await until(lambda: len(performer.performed) == SLOTS + 2)


class Broken(Slow):
    """An API server whose first answer no program can read."""

    async def perform(self, subject: Subject, effect: Effect) -> Outcome:
        outcome = await super().perform(subject, effect)
        if len(self.performed) == 1:
            raise ValueError("it cannot be read")
        return outcome


@in_virtual_time
async def test_a_deletion_that_raises_is_a_failure_that_is_tried_again() -> None:
    client, performer = Client(completed(ttl=5)), Broken(Done())
    async with running(client, performer, clock=clock) as engine:
        await asyncio.sleep(AGAIN_SECONDS / 2)
        assert b'workqueue_retries_total{controller="framework",name="framework"} 1.0' in engine.metrics.text()
        await until(lambda: len(performer.performed) == 2, every=10)


@in_virtual_time
async def test_one_that_comes_to_rest_is_worked_on_again_after_an_edit() -> None:
    client, performer = Client(completed(generation=2)), Performer()
    async with running(client, performer, clock=clock) as engine:
        await until(lambda: performer.writes)
        written = performer.writes[0].status
        assert written.observed_generation == 2
        assert b'frameworkcontroller_tasks{state="Completed"} 2.0' in engine.metrics.text()
        stored = completed(generation=2, resourceVersion="101") | {"status": msgspec.to_builtins(written)}
        client.shows("MODIFIED", stored)
        await until(lambda: b'frameworkcontroller_tasks{state="Completed"} 0.0' in engine.metrics.text())
        assert b'frameworkcontroller_frameworks{state="Completed"} 1.0' in engine.metrics.text()
        edited = stored["metadata"] | {"generation": 3, "resourceVersion": "102"}
        client.shows("MODIFIED", stored | {"metadata": edited})
        await until(lambda: len(performer.writes) > 1)
        assert performer.writes[1].status.observed_generation == 3
        assert performer.writes[1].resource_version == "102"


class Acceptor(Performer):
    """The API server, which takes each first status and shows it."""

    def __init__(self, client: Client, frameworks: list[dict[str, Any]]) -> None:
        super().__init__()
        self._client = client
        self._frameworks = {one["metadata"]["name"]: one for one in frameworks}

    async def perform(self, subject: Subject, effect: Effect) -> Outcome:
        assert isinstance(effect, WriteStatus)
        seen = self._frameworks.pop(subject.name)
        written = seen | {"status": effect.status, "metadata": seen["metadata"] | {"resourceVersion": "100"}}
        self._client.events.put_nowait(msgspec.json.encode({"type": "MODIFIED", "object": written}))
        return Done(resource_version="100")


@in_virtual_time
async def test_one_that_is_not_to_start_takes_little_memory_however_many_tasks_it_has() -> None:
    tasks, wanted = 10_000, list[dict[str, Any]]()
    for number in range(3):
        one = framework(uid=f"u{number}")
        one["metadata"] |= {"name": f"fw{number}"}
        role = one["spec"]["taskRoles"][0] | {"taskNumber": tasks}
        wanted.append(one | {"spec": {"executionType": "Create", "description": "x" * 100_000, "taskRoles": [role]}})
    client = Client()
    performer = Acceptor(client, wanted)
    idle = (b'_frameworks{state="AttemptCreationPending"} 3.0', b'_tasks{state="AttemptCreationPending"} 0.0')
    gc.collect()
    tracemalloc.start()
    try:
        async with running(client, performer) as engine:
            await asyncio.sleep(1)
            before, _ = tracemalloc.get_traced_memory()
            for one in wanted:
                client.shows("ADDED", one)
            await until(lambda: all(one in engine.metrics.text() for one in idle))
            # The last event is in memory until the next one comes, once for all Frameworks.
            client.shows("BOOKMARK", {"metadata": {"resourceVersion": "101"}})
            await asyncio.sleep(1)
            gc.collect()
            used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (used - before) / len(wanted) < 4 * BYTES


class Answering(Client):
    """Answers each read with the Framework as it was listed, after a while."""

    async def get(self, path: str, **_more: Any) -> bytes:
        await asyncio.sleep(0.5)
        return next(json.dumps(one).encode() for one in self.frameworks if one["metadata"]["name"] == Path(path).name)


class Late(Acceptor):
    """An API server that takes a second for each status, and sees how many Frameworks are worked on."""

    most = 0

    engine: engine.Engine

    async def perform(self, subject: Subject, effect: Effect) -> Outcome:
        await asyncio.sleep(1)
        self.most = max(self.most, sum(not one.settled for one in self.engine._works.values()))
        return await self.answer(subject, effect)

    async def answer(self, subject: Subject, effect: Effect) -> Outcome:
        return await super().perform(subject, effect)


def large(number: int, **more: Any) -> dict[str, Any]:
    """A Framework `fw<number>` that is large."""
    one = framework(uid=f"u{number}")
    one["metadata"] |= {"name": f"fw{number}"}
    return one | {"spec": {"taskRoles": [one["spec"]["taskRoles"][0] | {"taskNumber": LARGE_STATUS_TASKS + 1}], **more}}


@in_virtual_time
async def test_of_many_large_ones_few_are_worked_on_until_they_have_a_status() -> None:
    """130 of 10,000 Tasks that were not to start took a gibibyte until each had one."""
    wanted = [large(number, executionType="Create") for number in range(40)]
    client = Client(*wanted)
    performer = Late(client, wanted)
    async with running(client, performer) as performer.engine:
        idle = b'_frameworks{state="AttemptCreationPending"} 40.0'
        await until(lambda: idle in performer.engine.metrics.text() and not performer.engine._works, every=1)
        assert performer.most <= PLACES


class Disputed(Late):
    """Another writer is always faster, and the Framework is read again."""

    async def answer(self, subject: Subject, effect: Effect) -> Outcome:
        self.performed.append(effect)
        return StaleStatus()


@in_virtual_time
async def test_of_many_large_ones_that_are_read_again_few_are_worked_on_too() -> None:
    wanted = [large(number) for number in range(40)]
    client = Answering(*wanted)
    performer = Disputed(client, wanted)
    async with running(client, performer) as performer.engine:
        await until(lambda: len(performer.performed) > 100, every=1)
        assert performer.most <= PLACES


class Slower(Performer):
    """An API server that takes seconds for each status, whose Framework is gone then."""

    async def perform(self, subject: Subject, effect: Effect) -> Outcome:
        await asyncio.sleep(3)
        return Missing()


@in_virtual_time
async def test_large_ones_that_are_deleted_at_once_keep_their_places_while_a_write_of_them_waits() -> None:
    """Twenty a second took 1.8 GB of a controller in 40 s, with the rights of any tenant."""
    client = Client()
    async with running(client, Slower()):
        for number in range(100):
            client.shows("ADDED", large(number))
            await asyncio.sleep(0.1)
            client.shows("DELETED", large(number))
            await asyncio.sleep(0.1)
        gc.collect()
        assert sum(isinstance(one, Work) for one in gc.get_objects()) <= PLACES


class Silent(Performer):
    """Answers nothing."""

    async def perform(self, subject: Subject, effect: Effect) -> Outcome:
        await asyncio.Event().wait()
        raise AssertionError


@in_virtual_time
async def test_large_ones_that_run_are_all_worked_on_by_the_next_leader() -> None:
    """Nothing of them had to be written, and six kept the places of all others for ever."""
    status = msgspec.to_builtins(replace(status_of(State.RUNNING), observed_generation=1))
    tasks = [task(State.RUNNING, index=index) for index in range(LARGE_STATUS_TASKS + 1)]
    roles = [{"name": "worker", "instanceUID": "r", "taskStatuses": msgspec.to_builtins(tasks)}]
    status["attemptStatus"]["taskRoleStatuses"] = roles
    number = 2 * PLACES
    async with running(Client(*(large(one) | {"status": status} for one in range(number))), Silent()) as engine:
        await until(lambda: len(engine._works) == number, every=1)


@in_virtual_time
async def test_large_ones_that_another_brings_to_rest_wait_for_no_place() -> None:
    """They were counted for ever, so that the others looked for a place every 30 s in the end."""
    wanted = [large(number, executionType="Create") for number in range(3 * PLACES)]
    status = msgspec.to_builtins(replace(status_of(State.CREATION_PENDING), observed_generation=1))
    client = Client(*wanted)
    async with running(client, Silent()) as engine:
        await until(lambda: len(engine._beginning._waiting["n"]) == 2 * PLACES)
        for one in wanted[PLACES:]:
            meta = one["metadata"] | {"resourceVersion": "7"}
            client.shows("MODIFIED", one | {"metadata": meta, "status": status})
        await until(lambda: "n" not in engine._beginning._waiting)


class Hesitant(Performer):
    """An API server that takes each status, and answers nothing else: no Task gets a Pod."""

    async def perform(self, subject: Subject, effect: Effect) -> Outcome:
        if isinstance(effect, WriteStatus):
            return Done(resource_version=str(int(effect.resource_version) + 1))
        await asyncio.Event().wait()
        raise AssertionError


def idle_tasks(engine: engine.Engine) -> int:
    return sum(work.reconciler.tasks_by_state[State.CREATION_PENDING] for work in engine._works.values())


@in_virtual_time
async def test_of_many_large_ones_without_a_pod_few_have_tasks_until_others_are_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """140 of 10,000 Tasks under a quota of no Pods took a gibibyte."""
    most = 5 * (LARGE_STATUS_TASKS + 1)
    monkeypatch.setattr(shares, "MOST_IDLE", most + 5 * (FRAMEWORK + ROLE))
    client = Client(*(large(number) for number in range(30)))
    async with running(client, Hesitant()) as engine:
        await until(lambda: len(engine._works) == 30, every=1)
        await asyncio.sleep(60)
        assert idle_tasks(engine) == most
        for _ in range(5):
            names = [key[1] for key, work in engine._works.items() if work.reconciler.tasks_by_state]
            for name in names:
                client.shows("DELETED", large(int(name.removeprefix("fw"))))
            left = len(engine._works) - len(names)
            await until(lambda left=left: (len(engine._works), idle_tasks(engine)) == (left, most), every=1)


@in_virtual_time
async def test_of_many_large_ones_that_are_started_few_are_read_until_others_have_pods(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They were not to start, and had their Tasks in the status."""
    monkeypatch.setattr(shares, "MOST_IDLE", most := 5 * (LARGE_STATUS_TASKS + 1))
    status = msgspec.to_builtins(replace(status_of(State.CREATION_PENDING), observed_generation=1))
    tasks = [task(State.CREATION_PENDING, index=index) for index in range(LARGE_STATUS_TASKS + 1)]
    roles = [{"name": "worker", "instanceUID": "r", "taskStatuses": msgspec.to_builtins(tasks)}]
    status["attemptStatus"]["taskRoleStatuses"] = roles
    wanted = [large(number) | {"status": status} for number in range(30)]
    async with running(Client(*wanted), Hesitant()) as engine:
        await until(lambda: idle_tasks(engine) >= most, every=1)
        await asyncio.sleep(60)
        assert idle_tasks(engine) < most + PLACES * (LARGE_STATUS_TASKS + 1)


PENDING = {"state": "AttemptCreationPending"}


@pytest.mark.parametrize(
    ("tasks", "more", "status", "waits"),
    [
        pytest.param(300, {}, PENDING, True, id="its Tasks come along"),
        pytest.param(100, {}, PENDING, False, id="it has few"),
        pytest.param(300, {}, {"state": "AttemptRunning"}, False, id="it has begun"),
        pytest.param(300, {}, None, False, id="it is new: it gets no Tasks yet"),
        pytest.param(300, {"executionType": "Stop"}, PENDING, False, id="it is to stop"),
        pytest.param(300, {"executionType": "Create"}, PENDING, False, id="it will be at rest"),
        pytest.param(300, {"suspend": True}, PENDING, False, id="it is suspended"),
        pytest.param(300, {"suspend": True, "going": True}, PENDING, True, id="it is never at rest, being deleted"),
    ],
)
def test_where_too_many_tasks_have_no_pod_who_would_bring_more_is_not_read(
    tasks: int, more: dict[str, Any], status: dict[str, str] | None, *, waits: bool
) -> None:
    one = large(0, **more)
    one["spec"]["taskRoles"][0]["taskNumber"] = tasks
    if one["spec"].pop("going", False):
        one["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    found = decoded(one if status is None else one | {"status": status})
    full, free = Beginning(lambda _namespace: True), Beginning(lambda _namespace: False)
    assert full.wait_seconds(("n", "fw"), found) == (LONGEST_LOOK_SECONDS if waits else 0)
    assert free.wait_seconds(("n", "fw"), found) == 0


def test_of_a_namespace_in_which_nothing_large_begins_nothing_is_kept() -> None:
    """Two empty sets for each namespace that ever had a Framework were 0.7 KB."""
    beginning = Beginning(lambda _namespace: False)
    assert not beginning.wait_seconds(("n", "fw"), decoded(framework()))
    beginning.forget(("n", "fw"))
    assert (beginning._works, beginning._waiting) == ({}, {})


@pytest.mark.parametrize("owner", ["fw-attempt", "other-attempt", ""])
async def test_of_a_pod_that_is_not_the_frameworks_no_history_is_written_and_of_its_own_no_state_again(
    owner: str,
) -> None:
    """Whoever took the label off and on a Pod of a mebibyte wrote 13 MB of log a second."""
    lines = Lines()
    made = engine.Engine(Client(), Performer(), Settings().core, lines=lines)  # type: ignore[arg-type]
    owners = [{"kind": "ConfigMap", "name": owner, "uid": "c", "controller": True}] if owner else []
    pod = {"metadata": {"name": "fw-w-0", "namespace": "n", "uid": "p", "resourceVersion": "1"}}
    pod["metadata"] |= {"labels": {"FC_FRAMEWORK_NAME": "fw"}, "ownerReferences": owners}
    for going in ({}, {"deletionTimestamp": "2026-01-01T00:00:00Z"}):
        pod["metadata"] |= going
        for _ in range(10):
            made.on_pod_gone(json.dumps(pod).encode())
    assert len(lines.written) == (2 if owner == "fw-attempt" else 0)


@in_virtual_time
async def test_the_history_of_one_at_rest_is_whole() -> None:
    lines = Lines()
    client = Client(completed())
    async with running(client, Performer(), clock=clock, lines=lines):
        await asyncio.sleep(10)
        client.shows("DELETED", completed())
        await until(lambda: lines.written)
    document = json.loads(lines.written[0].split(b": ObjectSnapshot: ")[1])
    whole = json.loads(json.dumps(completed()))
    assert document["status"] == whole["status"]
    assert document["spec"] == whole["spec"]
