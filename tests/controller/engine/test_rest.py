"""A Framework at rest: the engine keeps an outline of it, and deletes it as it was seen when its time is over."""

import asyncio
import gc
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from frameworkcontroller.api import names
from frameworkcontroller.api.framework import FRAMEWORK_DECODER, Framework
from frameworkcontroller.api.meta import Partial
from frameworkcontroller.api.states import State
from frameworkcontroller.core.effects import (
    CreateConfigMap,
    DeleteCompanion,
    DeleteConfigMap,
    DeleteFramework,
    Done,
    Effect,
    Failed,
    Missing,
    OfCompanion,
    Outcome,
    PatchCompanion,
    SetFinalizers,
    StaleStatus,
    Subject,
    WriteStatus,
)
from frameworkcontroller.core.pods.facts import LARGE_BYTES
from frameworkcontroller.core.policies import shares
from frameworkcontroller.core.policies.role import FRAMEWORK, ROLE
from frameworkcontroller.core.policies.shares import MOST_IDLE, READS_AT_ONCE, IdleTasks
from frameworkcontroller.core.reconcile.config import CoreConfig
from frameworkcontroller.engine.actions import LARGE_STATUS_TASKS, Work
from frameworkcontroller.engine.cache.outline import Outline, outline_of
from frameworkcontroller.engine.config.settings import HistorySettings, KueueSettings, Settings
from frameworkcontroller.engine.engine import Engine
from frameworkcontroller.engine.large import LONGEST_LOOK_SECONDS, PLACES, LargeFrameworks
from frameworkcontroller.engine.rest import AGAIN_SECONDS, SLOTS
from tests.controller.core.values import config_map, ended, framework_end, task
from tests.controller.core.values import framework as status_of
from tests.controller.engine import stubs
from tests.controller.engine.stubs import Client, Lines, Performer, engine_of, framework, owned, running, until
from tests.kube.virtualtime import beside_a_thread, in_virtual_time
from tests.support.memory import memory
from tests.support.rows import each

SINCE = datetime(2026, 1, 1, tzinfo=UTC)
BYTES = 2048
"""Of an outline, at most."""
ONE_COMPLETED = b'frameworkcontroller_frameworks{state="Completed"} 1.0'
NO_TASKS = b'frameworkcontroller_tasks{state="Completed"} 0.0'


def status_in(state: State, tasks: int = 0, observed: int = 1) -> dict[str, Any]:
    """A status as it is stored, with so many Tasks of the same state."""
    end, whole = (ended(0), framework_end(0)) if state is State.COMPLETED else (None, None)
    status = msgspec.to_builtins(replace(status_of(state, whole), transition_time=SINCE, observed_generation=observed))
    of_tasks = [msgspec.to_builtins(task(state, end, index=index)) for index in range(tasks)]
    if tasks:
        roles = [{"name": "worker", "instanceUID": "r", "taskStatuses": of_tasks}]
        status["attemptStatus"]["taskRoleStatuses"] = roles
    return dict(status)


def completed(
    generation: int = 1, ttl: int | None = 100, tasks: int = 2, observed: int = 1, **more: Any
) -> dict[str, Any]:
    """A Framework as it is stored once it is Completed."""
    whole = framework(5, generation=generation)
    spec, metadata = whole["spec"] | {"ttlSecondsAfterFinished": ttl}, whole["metadata"] | more
    return whole | {"spec": spec, "metadata": metadata, "status": status_in(State.COMPLETED, tasks, observed)}


def many_completed(number: int) -> list[dict[str, Any]]:
    return [completed(ttl=5, name=f"fw{one}", uid=f"u{one}") for one in range(number)]


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


def in_state(state: str, **status: Any) -> dict[str, Any]:
    """A Framework whose status is that of a Completed one but for this."""
    return framework() | {"status": completed()["status"] | {"state": state} | status}


GOING = {"metadata": completed(deletionTimestamp="2026-01-01T00:00:05Z")["metadata"]}
NOT_AT_REST = {
    "edited since": completed(generation=2),
    "not Completed and being deleted": in_state("AttemptCreationPending") | GOING,
    "without a status": framework(),
    "not Completed": in_state("AttemptCompleted"),
    "Completed in words only": in_state("AttemptRunning", ready="Completed"),
}


@each("document", NOT_AT_REST.values(), ids=NOT_AT_REST)
def test_of_any_other_there_is_no_outline(document: dict[str, Any]) -> None:
    assert outline_of(decoded(document)) is None


def test_whatever_raises_the_framework_is_kept_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_found: Framework) -> None:
        raise UnicodeDecodeError("utf-8", b"x", 0, 1, "no text")

    monkeypatch.setattr("frameworkcontroller.engine.engine.outline_of", fails)
    whole = decoded(completed())
    assert engine_of(Client(), Performer()).keep_framework(whole) is whole


def test_an_outline_takes_little_memory_whatever_the_framework_takes() -> None:
    document = json.dumps(completed(tasks=500, annotations={"x": "y" * 100_000})).encode()
    with memory() as used:
        outlines = [outline_of(FRAMEWORK_DECODER.decode(document)) for _ in range(50)]
        assert all(isinstance(one, Outline) and one.metadata.name for one in outlines)
        assert used() / len(outlines) < BYTES


@in_virtual_time
async def test_one_that_is_found_at_rest_is_counted_and_left_alone_until_its_time_is_over() -> None:
    client, performer = Client(completed()), Performer()
    async with running(client, performer, clock=clock) as engine:
        await asyncio.sleep(80)
        assert performer.performed == []
        assert ONE_COMPLETED in engine.metrics.text()
        await asyncio.sleep(20)
        assert performer.performed == [DeleteFramework("5")]
        assert ONE_COMPLETED in engine.metrics.text()
        client.shows("DELETED", completed())
        await until(lambda: ONE_COMPLETED.replace(b"1.0", b"0.0") in engine.metrics.text())


class Slow(Performer):
    """The API server, which takes some seconds for each request and answers as a test says, the same at last."""

    def __init__(self, *answers: Outcome | Exception, seconds: float = 1) -> None:
        super().__init__()
        self.answers, self.seconds, self.most, self._now = list(answers), seconds, 0, 0

    async def perform(self, subject: Subject, effect: Effect) -> Outcome:
        self.performed.append(effect)
        self._now += 1
        self.most = max(self.most, self._now)
        await asyncio.sleep(self.seconds)
        self._now -= 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


@in_virtual_time
async def test_of_many_whose_time_is_over_few_are_deleted_at_a_time_and_none_is_read() -> None:
    """100 of 10,000 Tasks were read at once: the memory of the controller went to 1.4 GiB."""
    client, performer = Client(*many_completed(100)), Slow(Failed("the server is busy"))
    async with running(client, performer, clock=clock):
        await asyncio.sleep(40)
        assert (performer.performed, performer.most) == ([DeleteFramework("5")] * 100, SLOTS)
        await asyncio.sleep(AGAIN_SECONDS - 60)
        assert len(performer.performed) == 100
        await asyncio.sleep(60)
        assert len(performer.performed) == 200, "what failed is tried again"
    assert client.at == []


@in_virtual_time
async def test_one_that_is_held_by_a_finalizer_is_kept_in_outline_and_left_alone() -> None:
    held = completed(generation=2, ttl=5, deletionTimestamp="2026-01-01T00:00:05Z")
    client, performer = Client(held), Performer()
    async with running(client, performer, clock=clock) as engine:
        await asyncio.sleep(2 * AGAIN_SECONDS)
        assert performer.performed == []
        assert ONE_COMPLETED in engine.metrics.text()
        assert NO_TASKS in engine.metrics.text()


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
    client, performer = Client(*many_completed(SLOTS + 1)), Slow(Done())
    async with running(client, performer, clock=clock) as engine:
        await asyncio.sleep(0.5)
        odd = completed(ttl=5, name=f"fw{SLOTS}", uid=f"u{SLOTS}", resourceVersion="6")
        odd["status"]["transitionTime"] = "2026-01-01T00:00:00"  # without a zone
        client.shows("MODIFIED", odd)
        await until(lambda: b"frameworkcontroller_quarantined_frameworks 1.0" in engine.metrics.text())
        await asyncio.sleep(20)
        client.shows("ADDED", completed(ttl=5, name="next", uid="next"))
        await until(lambda: len(performer.performed) == SLOTS + 2)


@in_virtual_time
async def test_a_deletion_that_raises_is_a_failure_that_is_tried_again() -> None:
    client, performer = Client(completed(ttl=5)), Slow(ValueError("it cannot be read"), Done())
    async with running(client, performer, clock=clock) as engine:
        await asyncio.sleep(AGAIN_SECONDS / 2)
        assert b'workqueue_retries_total{controller="framework",name="framework"} 1.0' in engine.metrics.text()
        await until(lambda: len(performer.performed) == 2, every=10)


def large(number: int, tasks: int = LARGE_STATUS_TASKS + 1, **more: Any) -> dict[str, Any]:
    """A Framework `fw<number>` of so many Tasks."""
    one = framework(uid=f"u{number}", name=f"fw{number}")
    return one | {"spec": {"taskRoles": [stubs.ROLE | {"taskNumber": tasks}], **more}}


@pytest.mark.parametrize(
    ("whole", "edit", "tasks"),
    [
        pytest.param(completed(observed=0), {}, 2, id="Completed"),
        pytest.param(large(0, 10_000, executionType="Create"), {"executionType": "Start"}, 10_000, id="Create"),
        pytest.param(large(0, 10_000, suspend=True), {"suspend": False}, 10_000, id="suspended"),
    ],
)
@beside_a_thread
async def test_one_that_has_come_to_rest_is_kept_in_outline_and_worked_on_again_after_an_edit(
    whole: dict[str, Any], edit: dict[str, Any], tasks: int
) -> None:
    """300 bytes became 7.7 MB, for as long as a Framework waited."""
    client, performer, meta = Client(whole), Performer(), whole["metadata"]
    state = whole.get("status", {"state": "AttemptCreationPending"})["state"]
    async with running(client, performer, clock=clock) as engine:
        await until(lambda: performer.writes)
        (write,) = performer.writes
        assert f'frameworkcontroller_tasks{{state="{state}"}} {tasks}.0' in engine.metrics.text().decode()
        stored = whole | {"status": msgspec.to_builtins(write.status)}
        client.shows("MODIFIED", stored | {"metadata": meta | {"resourceVersion": "101"}})
        await until(lambda: not engine._works)
        view = engine._caches.view(("n", meta["name"]))
        assert view is not None
        assert view.framework.size < 1000
        text = engine.metrics.text().decode()
        assert f'frameworkcontroller_frameworks{{state="{state}"}} 1.0' in text
        assert f'frameworkcontroller_tasks{{state="{state}"}} 0.0' in text
        assert f"frameworkcontroller_suspended_frameworks {float('suspend' in edit)}" in text
        # It is edited: the cache has all of it again, and nothing of its status is made anew.
        edited = stored | {"metadata": meta | {"resourceVersion": "102", "generation": 2}, "spec": whole["spec"] | edit}
        client.shows("MODIFIED", edited)
        await until(lambda: len(performer.writes) > 1 and bool(performer.of(CreateConfigMap)) == bool(edit))
        again = performer.writes[1]
        assert (again.resource_version, again.status.observed_generation) == ("102", 2)
        before, after = (one.summary.roles[0].task_statuses for one in (write, again))
        assert (len(before), after[-1].instance_uid) == (tasks, before[-1].instance_uid)


class Acceptor(Performer):
    """The API server, which takes each first status after some seconds and shows it; it sees who is worked on."""

    engine: Engine | None = None
    most = 0

    def __init__(self, client: Client, frameworks: list[dict[str, Any]], *outcomes: Outcome, seconds: float) -> None:
        super().__init__(*outcomes)
        self._client, self._seconds = client, seconds
        self._frameworks = {one["metadata"]["name"]: one for one in frameworks}

    async def perform(self, subject: Subject, effect: Effect) -> Outcome:
        await asyncio.sleep(self._seconds)
        assert isinstance(effect, WriteStatus)
        if self.engine is not None:
            self.most = max(self.most, sum(not one.settled for one in self.engine._works.values()))
        if self.outcomes:
            return self.outcomes.pop()
        seen = self._frameworks.pop(subject.name)
        written = seen | {"status": effect.status, "metadata": seen["metadata"] | {"resourceVersion": "100"}}
        self._client.shows("MODIFIED", written)
        return Done(resource_version="100")


@in_virtual_time
async def test_one_that_is_not_to_start_takes_little_memory_however_many_tasks_it_has() -> None:
    wanted = [large(one, 10_000, executionType="Create", description="x" * 100_000) for one in range(3)]
    client = Client()
    performer = Acceptor(client, wanted, seconds=0)
    idle = (b'_frameworks{state="AttemptCreationPending"} 3.0', b'_tasks{state="AttemptCreationPending"} 0.0')
    with memory() as used:
        async with running(client, performer) as engine:
            await asyncio.sleep(1)
            before = used()
            for one in wanted:
                client.shows("ADDED", one)
            await until(lambda: all(one in engine.metrics.text() for one in idle))
            # The last event is in memory until the next one comes, once for all Frameworks.
            client.shows("BOOKMARK", {"metadata": {"resourceVersion": "101"}})
            await asyncio.sleep(1)
            assert (used() - before) / len(wanted) < 4 * BYTES


@in_virtual_time
async def test_of_many_large_ones_few_are_worked_on_until_they_have_a_status() -> None:
    """130 of 10,000 Tasks that were not to start took a gibibyte until each had one."""
    wanted = [large(number, executionType="Create") for number in range(40)]
    client = Client(*wanted)
    performer = Acceptor(client, wanted, seconds=1)
    async with running(client, performer, clock=clock, monotonic=asyncio.get_running_loop().time) as engine:
        performer.engine, idle = engine, b'_frameworks{state="AttemptCreationPending"} 40.0'
        await until(lambda: idle in engine.metrics.text() and not engine._works, every=1)
        assert performer.most <= PLACES


@in_virtual_time
async def test_of_many_large_ones_that_are_read_again_few_are_worked_on_too() -> None:
    """Another writer is always faster."""
    client, stale = Client(*map(large, range(40))), [StaleStatus()] * 1000
    client.read_seconds = 0.5
    performer = Acceptor(client, [], *stale, seconds=1)
    async with running(client, performer) as performer.engine:
        await until(lambda: len(performer.outcomes) < len(stale) - 100, every=1)
        assert performer.most <= PLACES


@in_virtual_time
async def test_large_ones_that_are_deleted_at_once_keep_their_places_while_a_write_of_them_waits() -> None:
    """Twenty a second took 1.8 GB of a controller in 40 s, with the rights of any tenant."""
    client = Client()
    async with running(client, Slow(Missing(), seconds=3)):
        for number in range(100):
            client.shows("ADDED", large(number))
            await asyncio.sleep(0.1)
            client.shows("DELETED", large(number))
            await asyncio.sleep(0.1)
        gc.collect()
        assert sum(isinstance(one, Work) for one in gc.get_objects()) <= PLACES


SILENCE = 1e6
"""Seconds, of an API server that answers nothing."""


@in_virtual_time
async def test_large_ones_that_run_are_all_worked_on_by_the_next_leader() -> None:
    """Nothing of them had to be written, and six kept the places of all others for ever."""
    status, number = status_in(State.RUNNING, LARGE_STATUS_TASKS + 1), 2 * PLACES
    client = Client(*(large(one) | {"status": status} for one in range(number)))
    async with running(client, Slow(Missing(), seconds=SILENCE)) as engine:
        await until(lambda: len(engine._works) == number, every=1)


@in_virtual_time
async def test_large_ones_that_another_brings_to_rest_wait_for_no_place() -> None:
    """They were counted for ever, so that the others looked for a place every 30 s in the end."""
    wanted = [large(number, executionType="Create") for number in range(3 * PLACES)]
    client, status = Client(*wanted), status_in(State.CREATION_PENDING)
    async with running(client, Slow(Missing(), seconds=SILENCE)) as engine:
        await until(lambda: len(engine._large._waiting["n"]) == 2 * PLACES)
        for one in wanted[PLACES:]:
            meta = one["metadata"] | {"resourceVersion": "7"}
            client.shows("MODIFIED", one | {"metadata": meta, "status": status})
        await until(lambda: "n" not in engine._large._waiting)


class Store(Performer):
    """An API server that takes each status after a while and shows it, and whose users edit their Frameworks."""

    def __init__(self, client: Client, frameworks: list[dict[str, Any]]) -> None:
        super().__init__()
        self._client, self._version = client, 100
        self.stored = {one["metadata"]["name"]: one for one in frameworks}

    async def perform(self, subject: Subject, effect: Effect) -> Outcome:
        await asyncio.sleep(0.3 if isinstance(effect, WriteStatus) else SILENCE)
        assert isinstance(effect, WriteStatus)
        return Done(resource_version=self._show(subject.name, status=msgspec.to_builtins(effect.status)))

    def edit(self, name: str, **fields: Any) -> None:
        generation = self.stored[name]["metadata"].get("generation", 1) + 1
        fields["description"] = f"{generation}"
        self._show(name, {"generation": generation}, spec=self.stored[name]["spec"] | fields)

    def _show(self, name: str, more: dict[str, Any] | None = None, **parts: Any) -> str:
        self._version += 1
        meta = self.stored[name]["metadata"] | (more or {}) | {"resourceVersion": str(self._version)}
        self.stored[name] = self.stored[name] | parts | {"metadata": meta}
        self._client.shows("MODIFIED", self.stored[name])
        return str(self._version)


@pytest.mark.parametrize(
    ("edits", "fields"),
    [(1, {}), (30, {}), (30, {"executionType": "Stop"})],
    ids=["once, beside ConfigMaps of others", "for ever", "stopped, and edited for ever"],
)
@in_virtual_time
async def test_of_many_large_ones_at_rest_that_are_edited_few_are_worked_on(edits: int, fields: dict[str, Any]) -> None:
    """20 of 10,000 ended Tasks took 600 MB, for as long as the ConfigMaps were there."""
    wanted = [large(number, executionType="Create") for number in range(4 * PLACES)]
    found = [one["metadata"]["name"] for one in wanted]
    beside = [
        {
            "metadata": {
                "name": names.config_map_name(name), "namespace": "n", "uid": f"c{name}", "resourceVersion": "1",
                "labels": {names.FRAMEWORK_NAME: name},
            }
        }
        for name in found
    ]  # fmt: skip
    client = Client(*wanted, configmaps=beside if edits == 1 else [])
    store, most = Store(client, wanted), 0
    async with running(client, store, clock=clock, monotonic=asyncio.get_running_loop().time) as engine:
        await until(lambda: all("status" in one for one in store.stored.values()) and not engine._works, every=1)
        for _ in range(edits):
            for name in found:
                store.edit(name, **fields)
                await asyncio.sleep(0.7 / len(found))
                most = max(most, len(engine._works))
        told = [edits + 1] * len(found)
        await until(lambda: [one["status"]["observedGeneration"] for one in store.stored.values()] == told, every=1)
        await until(lambda: not engine._works, every=1)
    assert most <= PLACES


@in_virtual_time
async def test_one_that_has_grown_takes_a_place_as_if_it_had_begun_so() -> None:
    """Ten of one Task that became large, and were stopped and edited then, were not counted.

    They keep none from starting: one that lacks a permission for what is left to do never rests.
    """
    small = [large(number, 1, executionType="Create") for number in range(PLACES)]
    waits, starts = large(PLACES, executionType="Create"), large(PLACES + 1)
    client = Client(*small)
    store = Store(client, [*small, waits, starts])
    async with running(client, store, clock=clock, monotonic=asyncio.get_running_loop().time) as engine:
        await asyncio.sleep(0.1)
        for number in range(PLACES):
            store.edit(f"fw{number}", taskRoles=[stubs.ROLE | {"taskNumber": LARGE_STATUS_TASKS + 1}])
        await asyncio.sleep(0.3)
        client.shows("ADDED", waits)
        client.shows("ADDED", starts)
        await asyncio.sleep(0.1)
        assert engine._large._waiting["n"] == {("n", waits["metadata"]["name"])}
        await until(lambda: all("status" in one for one in store.stored.values()) and len(engine._works) == 1, every=1)
        assert ("n", starts["metadata"]["name"]) in engine._works


class Hesitant(Performer):
    """An API server that takes each status, and answers nothing else: no Task gets a Pod."""

    async def perform(self, subject: Subject, effect: Effect) -> Outcome:
        if isinstance(effect, WriteStatus):
            return Done(resource_version=str(int(effect.resource_version) + 1))
        await asyncio.sleep(SILENCE)
        raise AssertionError


def idle_tasks(engine: Engine) -> int:
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
        gone: list[str] = []
        for _ in range(5):
            names = [key[1] for key, work in engine._works.items() if work.reconciler.tasks_by_state]
            for name in names:
                client.shows("DELETED", large(int(name.removeprefix("fw"))))
            gone.extend(names)
            await until(lambda: (len(engine._works), idle_tasks(engine)) == (30 - len(gone), most), every=1)


@in_virtual_time
async def test_of_many_large_ones_that_are_started_few_are_read_until_others_have_pods(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They were not to start, and had their Tasks in the status."""
    monkeypatch.setattr(shares, "MOST_IDLE", most := 5 * (LARGE_STATUS_TASKS + 1))
    status = status_in(State.CREATION_PENDING, LARGE_STATUS_TASKS + 1)
    wanted = [large(number) | {"status": status} for number in range(30)]
    async with running(Client(*wanted), Hesitant()) as engine:
        await until(lambda: idle_tasks(engine) >= most, every=1)
        await asyncio.sleep(60)
        assert idle_tasks(engine) < most + PLACES * (LARGE_STATUS_TASKS + 1)


PENDING = {"state": "AttemptCreationPending"}


def test_all_that_wait_where_too_many_tasks_have_no_pod_look_ten_times_a_second() -> None:
    idle = IdleTasks()
    idle.note("others", MOST_IDLE)
    large_ones, found = LargeFrameworks(lambda _namespace: idle), decoded(large(0, 300) | {"status": PENDING})
    pauses = [large_ones.wait_seconds(("n", f"fw{number}"), found, None) for number in range(1000)]
    assert (pauses[0], pauses[-1]) == (LONGEST_LOOK_SECONDS, 100)


def look_seconds(
    tasks: int = 300,
    status: dict[str, str] | None = PENDING,
    others: int = MOST_IDLE,
    left: Partial | None = None,
    **more: Any,
) -> list[float]:
    """How long a Framework waits until it is read: beside so many idle Tasks of others, and beside none."""
    metadata = GOING if more.pop("going", False) else {}
    found = decoded(large(0, tasks, **more) | metadata | ({"status": status} if status else {}))
    crowded = IdleTasks()
    crowded.note("others", others)
    looks = LargeFrameworks(lambda _namespace: crowded), LargeFrameworks(lambda _namespace: IdleTasks())
    return [look.wait_seconds(("n", "fw"), found, left) for look in looks]


@each(
    "seen, waits",
    [
        pytest.param({}, True, id="its Tasks come along"),
        pytest.param({"tasks": 100}, False, id="it has few"),
        pytest.param({"tasks": 100, "others": 2 * MOST_IDLE}, True, id="it has few, as all others have"),
        pytest.param({"status": {"state": "AttemptRunning"}}, False, id="it has begun"),
        pytest.param({"status": None}, False, id="it is new: it gets no Tasks yet"),
        pytest.param({"executionType": "Stop"}, False, id="it is to stop"),
        pytest.param({"executionType": "Create"}, False, id="it will be at rest"),
        pytest.param({"suspend": True}, False, id="it is suspended"),
        pytest.param({"suspend": True, "going": True}, True, id="it is never at rest, being deleted"),
        pytest.param(
            {"suspend": True, "left": config_map(owner="u0")}, True, id="its ConfigMap is to be deleted first"
        ),
        pytest.param({"suspend": True, "left": config_map(deleted=True)}, False, id="a finalizer holds its ConfigMap"),
        pytest.param(
            {"suspend": True, "left": config_map()}, False, id="a ConfigMap of others has the name of its own"
        ),
    ],
)
def test_where_too_many_tasks_have_no_pod_who_would_bring_more_is_not_read(seen: dict[str, Any], waits: bool) -> None:
    assert look_seconds(**seen) == [LONGEST_LOOK_SECONDS if waits else 0, 0]


def test_of_a_namespace_in_which_nothing_large_begins_nothing_is_kept() -> None:
    """Two empty sets for each namespace that ever had a Framework were 0.7 KB."""
    large_ones = LargeFrameworks(lambda _namespace: IdleTasks())
    assert not large_ones.wait_seconds(("n", "fw"), decoded(framework()), None)
    large_ones.forget(("n", "fw"))
    assert (large_ones._works, large_ones._waiting) == ({}, {})


@each("owner, written", [("fw-attempt", 2), ("other-attempt", 0), ("", 0)])
def test_of_a_pod_that_is_not_the_frameworks_no_history_is_written_and_of_its_own_no_state_again(
    owner: str, written: int
) -> None:
    """Whoever took the label off and on a Pod of a mebibyte wrote 13 MB of log a second."""
    lines, pod = Lines(), owned("fw-w-0", uid="p")
    owners = [{"kind": "ConfigMap", "name": owner, "uid": "c", "controller": True}] if owner else []
    pod["metadata"]["ownerReferences"] = owners
    engine = engine_of(Client(), Performer(), lines=lines)
    for going in ({}, {"deletionTimestamp": "2026-01-01T00:00:00Z"}):
        pod["metadata"] |= going
        for _ in range(10):
            engine.on_pod_gone(json.dumps(pod).encode())
    assert len(lines.written) == written


SUSPENDED = framework() | {
    "spec": stubs.SPEC | {"suspend": True},
    "status": status_in(State.CREATION_PENDING) | {"suspendedSince": "2026-01-01T00:00:00Z"},
}


@pytest.mark.parametrize("at_rest", [SUSPENDED, framework() | {"status": status_in(State.COMPLETED)}])
@in_virtual_time
async def test_one_at_rest_keeps_no_config_map_whose_creation_a_dead_controller_has_asked_for(
    at_rest: dict[str, Any],
) -> None:
    # It is of an hour later than the Framework.
    orphan = owned("fw-attempt", uid="orphan", creationTimestamp="2026-01-01T01:00:00Z")
    performer = Performer()
    async with running(Client(at_rest, configmaps=[orphan]), performer):
        await until(lambda: performer.of(DeleteConfigMap))
    assert [effect.uid for effect in performer.of(DeleteConfigMap)] == ["orphan"]
    assert not performer.of(CreateConfigMap)


def many_to_be_read() -> Client:
    suspended = [SUSPENDED | {"metadata": SUSPENDED["metadata"] | {"name": f"fw{one}"}} for one in range(40)]
    left = [owned(f"fw{one}-attempt", f"fw{one}", uid=f"orphan{one}") for one in range(40)]
    return Client(*suspended, configmaps=left)


@in_virtual_time
async def test_of_many_at_rest_whose_config_maps_somebody_creates_one_a_second_is_read() -> None:
    """Each of 1.4 MB was read for a ConfigMap of a few bytes, as fast as its tenant deleted it and made it again."""
    async with running(client := many_to_be_read(), Performer()):
        await asyncio.sleep(10.5)
        assert len(client.at) == READS_AT_ONCE + 10


@in_virtual_time
async def test_one_at_rest_that_is_deleted_does_not_wait_to_be_read_and_nor_does_the_next_of_its_name() -> None:
    async with running(client := many_to_be_read(), performer := Performer()):
        await until(lambda: len(client.at) == READS_AT_ONCE)
        last, again = client.frameworks[-1], framework(9, "again", name="fw39")
        client.frameworks = (*client.frameworks[:-1], again)
        client.shows("DELETED", last)
        client.shows("ADDED", again)
        await asyncio.sleep(0.5)
        assert [path.rpartition("/")[2] for path in client.at[READS_AT_ONCE:]] == ["fw39"]
        assert [effect.status.state for effect in performer.of(WriteStatus)][-1:] == [State.CREATION_PENDING]


@in_virtual_time
async def test_one_that_is_suspended_rests_though_a_finalizer_holds_its_config_map() -> None:
    """Its Tasks stayed in memory, and 45 of 10,000 Tasks had 300 MiB."""
    going = owned("fw-attempt", uid="orphan", deletionTimestamp="2026-01-01T01:00:00Z")
    async with running(Client(SUSPENDED, configmaps=[going]), performer := Performer()) as engine:
        await asyncio.sleep(60)
        assert (engine._works, performer.of(DeleteConfigMap)) == ({}, [])


def with_a_large_template(whole: dict[str, Any]) -> dict[str, Any]:
    copy: dict[str, Any] = json.loads(json.dumps(whole))
    copy["spec"]["taskRoles"][0]["task"]["pod"]["metadata"] = {"annotations": {"large": "x" * (LARGE_BYTES + 1)}}
    return copy


@pytest.mark.parametrize(
    ("whole", "effect"),
    [
        (completed(), PatchCompanion),
        # It is read in a thread, when the cache has an outline already.
        (with_a_large_template(completed()), PatchCompanion),
        (SUSPENDED, DeleteCompanion),
    ],
    ids=["Completed", "Completed, and large", "suspended"],
)
@beside_a_thread
async def test_the_workload_of_one_at_rest_is_finished_or_given_up(
    whole: dict[str, Any], effect: type[PatchCompanion | DeleteCompanion]
) -> None:
    """A controller has died between the status and the Workload."""
    client, performer = Client(whole, workloads=[owned(names.workload_name("fw", "u"), uid="w")]), Performer()
    settings = replace(Settings(), kueue=KueueSettings(enabled=True))
    async with running(client, performer, settings.core, clock=clock):
        await until(lambda: any(isinstance(one, OfCompanion) for one in performer.performed))
    (found,) = (one for one in performer.performed if isinstance(one, OfCompanion))
    assert isinstance(found, effect)
    assert found.uid == "w"


OURS = names.HISTORY_FINALIZER
WITH_ARCHIVE = replace(Settings(), history=HistorySettings("http://archive:8081")).core


def finalizers_of(performed: list[Effect]) -> object:
    """Return what the only effect sets."""
    (effect,) = performed
    assert isinstance(effect, SetFinalizers)
    assert effect.resource_version == "5"
    return json.loads(effect.finalizers)


@pytest.mark.parametrize(
    ("config", "before", "after"),
    [
        pytest.param(WITH_ARCHIVE, ["a/b"], ["a/b", OURS], id="an archive has come"),
        pytest.param(Settings().core, ["a/b", OURS, "c/d"], ["a/b", "c/d"], id="it has gone"),
    ],
)
@in_virtual_time
async def test_one_at_rest_is_held_for_an_archive_or_let_go_once(
    config: CoreConfig, before: list[str], after: list[str]
) -> None:
    client, performer = Client(completed(ttl=None, finalizers=before)), Performer()
    async with running(client, performer, config, clock=clock) as engine:
        await until(lambda: performer.performed)
        assert finalizers_of(performer.performed) == after
        client.shows("MODIFIED", completed(ttl=None, finalizers=after, resourceVersion="101"))
        await until(lambda: not engine._works)
        await asyncio.sleep(AGAIN_SECONDS)
        assert (len(performer.performed), len(client.at)) == (1, 1)


@in_virtual_time
async def test_one_at_rest_that_is_deleted_is_let_go_after_a_day_if_the_archive_is_away() -> None:
    gone = {"finalizers": [OURS, "a/b"], "deletionTimestamp": "2026-01-01T00:00:05Z"}
    client, performer = Client(completed(generation=2, observed=2, ttl=5, **gone)), Performer()
    async with running(client, performer, WITH_ARCHIVE, clock=clock):
        await asyncio.sleep(24 * 3600 - 60)
        assert (performer.performed, client.at) == ([], [])
        await asyncio.sleep(120)
        assert finalizers_of(performer.performed) == ["a/b"]


ODD = {"state": "AttemptRunning", "attemptStatus": {"taskRoleStatuses": [{"name": "worker"}]}}


@pytest.mark.parametrize("whole", [completed(), framework() | {"status": ODD}], ids=["at rest", "cannot be decoded"])
@in_virtual_time
async def test_the_history_of_a_framework_is_whole(whole: dict[str, Any]) -> None:
    client, lines = Client(whole), Lines()
    async with running(client, Performer(), clock=clock, lines=lines):
        await asyncio.sleep(10)
        client.shows("DELETED", whole)
        await until(lambda: lines.written)
    trigger, document = lines.written[0].split(b": ObjectSnapshot: ")
    assert trigger.endswith(b"OnFrameworkDeletion")
    seen = json.loads(document)
    assert (seen["spec"], seen["status"]) == (whole["spec"], json.loads(json.dumps(whole["status"])))
