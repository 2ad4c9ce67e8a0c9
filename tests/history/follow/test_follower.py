"""What waits to be written, and to be let go of: no input of one holds up or pushes out what others wait for."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec
import pytest

from frameworkclient.views.events import EVENT_DECODER, EventView
from frameworkcontroller.api import names
from frameworkcontroller.api.framework import FRAMEWORK_DECODER, Framework
from frameworkhistory.archive.changes import Changes, Row
from frameworkhistory.archive.database import Database
from frameworkhistory.follow import records
from frameworkhistory.follow.follower import Follower
from frameworkhistory.follow.pending import SEEN_BYTES, ConfigMap, Pending, Seen
from frameworkkube.errors import ApiStatusError
from frameworkkube.http.client import KubeClient
from frameworkkube.http.credentials import Endpoint
from testkit.waiting import eventually_async


def state(
    name: str = "fw", version: int = 1, *, deleting: bool = False, gpus: str = "1", namespace: str = "lab"
) -> Framework:
    metadata: dict[str, Any] = {"name": name, "namespace": namespace, "uid": f"uid-{name}"}
    metadata |= {"resourceVersion": str(version), "generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z"}
    metadata |= {"finalizers": [names.HISTORY_FINALIZER]}
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-01T01:00:00Z"
    container = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": gpus}}}
    pod = {"metadata": {}, "spec": {"containers": [container]}}
    spec = {"taskRoles": [{"name": "worker", "taskNumber": 2, "task": {"pod": pod}}]}
    return FRAMEWORK_DECODER.decode(msgspec.json.encode({"metadata": metadata, "spec": spec}))


@pytest.fixture
async def follower(tmp_path: Path) -> AsyncIterator[Follower]:
    """A follower with a database, whose informers are not at work."""
    client = KubeClient(Endpoint("http://127.0.0.1:1"))
    with contextlib.closing(Database(f"sqlite:///{tmp_path}/archive.db")) as database:
        database.open()
        yield Follower(client, database.engine)
    await client.close()


def event(number: int, kind: str = names.KIND, name: str = "fw", **more: Any) -> EventView:
    about = {"kind": kind, "name": name, "uid": f"uid-{name}"}
    metadata = {"name": f"e{number}", "namespace": "lab", "uid": f"e{number}", "resourceVersion": "1"}
    metadata["creationTimestamp"] = "2026-01-01T00:00:00Z"
    return EVENT_DECODER.decode(msgspec.json.encode({"metadata": metadata, "involvedObject": about} | more))


def log(name: str = "fw") -> Changes:
    task = {"attempt": 0, "role": "worker", "index": 0, "run": 0}
    return Changes(f"uid-{name}", "lab", logs=[{"pod_uid": "p", "container": "c", "restart": 0, "taken": 1.0, **task}])


@contextlib.asynccontextmanager
async def at_work(*parts: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(part) for part in parts]
        yield
        for one in tasks:
            one.cancel()


async def comes(found: Callable[[], object], wanted: object) -> None:
    """Wait until this is found."""

    async def check() -> None:
        assert found() == wanted

    await eventually_async(check, timeout=5)


def losses(follower: Follower) -> list[str]:
    """How many rows each gap says that were lost."""
    return [str(one["what"].split()[0]) for one in follower._reader.gaps(0)]


def row_of(follower: Follower) -> Row:
    row = follower._reader.framework("lab", "fw")
    assert row is not None
    return row


def id_of(follower: Follower) -> int:
    return int(row_of(follower)["id"])


async def written(follower: Follower) -> None:
    while follower.pending:
        await follower._write(follower.pending.take())


async def test_a_roster_is_kept_once_it_is_complete_and_not_in_the_cache(follower: Follower) -> None:
    def document(version: int, *, complete: bool) -> bytes:
        roster = json.dumps({"framework": {"uid": "uid-fw", "attemptID": 0}, "complete": complete})
        metadata = {"name": "fw-attempt", "namespace": "lab", "uid": "c", "resourceVersion": str(version)}
        metadata |= {"annotations": {names.ROSTER_ANNOTATION: "x", "of": "others"}}
        return msgspec.json.encode({"metadata": metadata, "data": {names.ROSTER_KEY: roster}})

    config_maps = follower._others[-1]
    follower._on_framework(None, state())
    for version, complete in ((2, False), (3, True)):
        found = config_maps._wire._object(msgspec.Raw(document(version, complete=complete)))
        config_maps._contents.listed(found)
        await written(follower)
        kept = follower._reader.roster(id_of(follower), 0)
        assert (kept is not None) is complete
        cached = config_maps.get("lab", "fw-attempt")
        assert cached is not None
        assert (cached.data, list(cached.metadata.annotations)) == ({}, [names.ROSTER_ANNOTATION])


async def test_an_event_of_a_pod_is_of_the_framework_that_was_there_then(follower: Follower) -> None:
    frameworks, pods = follower._frameworks[0], follower._others[1]
    frameworks._contents.listed(state())
    for number, at in enumerate(("2025-12-31T23:59:59Z", "2026-01-01T00:00:00Z")):
        pods._contents.listed(event(number, "Pod", "fw-worker-0", type="Warning", lastTimestamp=at))
    await written(follower)
    assert [one["uid"] for one in follower._reader.events(id_of(follower))] == ["e1"]
    cached = pods.get("lab", "e1")
    assert cached is not None
    assert (cached.metadata.uid, cached.involved_object.name) == ("e1", "")


async def test_rows_wait_for_their_framework_and_not_for_ever(
    follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    follower._frameworks[0].synced.set()
    async with at_work(follower._write_always(), follower._look_always()):
        follower._on_event(event(1))
        saving = asyncio.create_task(follower.save(log()))
        await asyncio.sleep(0.3)
        assert not saving.done()
        follower._on_framework(None, state())
        assert await asyncio.wait_for(saving, 5)
        assert len(follower._reader.events(id_of(follower))) == 1
        monkeypatch.setattr("frameworkhistory.follow.follower.EARLY_SECONDS", 1.0)
        assert not await asyncio.wait_for(follower.save(log("forged")), 10)
    assert not follower.pending._early


async def test_no_flood_of_events_pushes_out_the_row_of_a_log_and_what_it_pushes_out_is_told(
    follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = Seen(0.0, rows=Changes("uid-fw", "lab", events=[records.event(event(10))])).size
    monkeypatch.setattr("frameworkhistory.follow.pending.PENDING_BYTES", 10 * size)
    follower._frameworks[0].synced.set()
    follower._on_framework(None, state())
    saving = asyncio.create_task(follower.save(log()))
    await asyncio.sleep(0)
    for number in range(30):
        follower._on_event(event(number))
    async with at_work(follower._write_always()):
        assert await asyncio.wait_for(saving, 5)
        await comes(lambda: losses(follower), ["20"])
    assert len(follower._reader.events(id_of(follower))) == 10


async def test_a_row_that_the_database_refuses_keeps_no_other_out_and_is_told(
    follower: Follower, capsys: pytest.CaptureFixture[str]
) -> None:
    follower._frameworks[0].synced.set()
    follower._on_framework(None, state())
    refused = log()
    refused.logs[0]["restart"] = 2**70
    async with at_work(follower._write_always()):
        assert await asyncio.wait_for(asyncio.gather(follower.save(refused), follower.save(log())), 5)
        await comes(lambda: losses(follower), ["1"])
    assert [one["restart"] for one in follower._reader.logs(id_of(follower))] == [0]
    assert (follower.refused, follower.errors) == (1, 0)
    (told,) = [line for line in capsys.readouterr().out.splitlines() if "a state cannot be kept" in line]
    assert "subject=lab/uid-fw" in told


async def test_a_state_of_before_a_backup_of_etcd_is_the_newest(follower: Follower) -> None:
    follower._on_framework(None, state(version=9, gpus="1"))
    await written(follower)
    follower._stored = follower._reader.existing()
    follower._frameworks[0].synced.set()
    follower._on_framework(None, state(version=3, gpus="4"))
    async with at_work(follower._write_always()):
        await comes(lambda: [(one := row_of(follower))["version"], one["gpus"]], ["3", 8])


async def test_a_silent_api_server_is_a_gap_once_it_answers(
    follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("frameworkhistory.follow.follower.AT_WORK_SECONDS", 0.05)
    informers = [*follower._frameworks, *follower._others]
    for one in informers:
        one.synced.set()
    informers[1].last_activity -= 1000
    async with at_work(follower._mark_always()):
        await asyncio.sleep(0.3)
        assert (follower._reader.gaps(0), follower._reader.mark("at-work")) == ([], None)
        informers[1]._record_activity()
        await comes(lambda: [round(one["ended"] - one["began"], -1) for one in follower._reader.gaps(0)], [1000])
        await comes(lambda: follower._reader.mark("at-work") is None, False)


async def test_the_row_of_a_log_waits_for_no_other_framework_of_its_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("frameworkhistory.follow.pending.BATCH", 1)
    pending, wait = Pending(), asyncio.get_running_loop().create_future
    for name in ("a", "b"):
        pending.add_rows(Seen(1.0, rows=log(name), written=wait()))
        pending.add_rows(Seen(1.0, rows=Changes(f"uid-{name}", "lab", events=[{"uid": name}])))
        pending.add(state(name), is_gone=False)
    for name in ("a", "b"):
        taken = pending.take()
        rows = [one.rows for one in taken if one.rows is not None]
        assert [one.state.metadata.name for one in taken if one.state is not None] == [name]
        assert [one.uid for one in rows if one.logs] == [f"uid-{name}"]
        assert [one.uid for one in rows if one.events] == ([] if name == "a" else ["uid-a", "uid-b"])
    assert not pending


async def test_of_states_that_memory_has_no_place_for_the_newest_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("frameworkhistory.follow.pending.PENDING_BYTES", 2 * (state().size + SEEN_BYTES))
    pending, begun = Pending(), time.monotonic()
    for number in range(5):
        pending.add(state("fw", number), is_gone=False)
    for number in range(20_000):
        pending.add(state(f"fw{number}"), is_gone=False)
    assert time.monotonic() - begun < 10, "each one costs the same"
    assert pending.passed_over == 2
    found = [one for _ in range(400) for one in pending.take()]
    assert [one.state.metadata.resource_version for one in found[:3] if one.state] == ["2", "3", "4"]
    assert (len(found), pending._spare, pending._sizes) == (20_003, {}, {})


@pytest.mark.parametrize(("size", "number_of"), [(1, 40), (1_500_000, 40), (1_500_000, 1)])
async def test_who_changes_much_lets_others_wait_for_two_transactions(
    size: int, number_of: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("frameworkhistory.follow.pending.BATCH", 8)
    pending, text = Pending(), "x" * size
    for number in range(40):
        pending.add(state(f"flood{number % number_of}", number, gpus=text, namespace="other"), is_gone=False)
    pending.add_rows(seen_event(0))
    pending.add(state(), is_gone=False)
    pending.add_rows(Seen(time.time(), rows=log(), written=asyncio.Future()))
    two = [pending.take(), pending.take()]
    assert [one.state is None for found in two for one in found if one.namespace == "lab"] == [False, True]
    assert all(len(found) <= (9 if size == 1 else 5) for found in two), "so many states, or bytes of them, and the row"
    rest = [pending.take() for _ in range(40)]
    assert sum(map(len, [*two, *rest])) == 43
    assert not pending._waiting


async def let_go(follower: Follower, *held: Framework) -> list[str]:
    """Hold these, and return their names as they are let go one by one; the API server refuses that of `refused`."""
    released: list[str] = []

    async def release(one: Framework) -> None:
        if one.metadata.name == "refused":
            raise ApiStatusError(403, "Forbidden", "a policy says no")
        released.append(one.metadata.name)

    follower._release = release  # type: ignore[method-assign] # -- the answers of the API server
    for one in held:
        follower._hold(one)
    names = {one.metadata.name for one in held} - {"refused"}
    async with at_work(follower._release_always()):
        await comes(lambda: set(released), names)
    assert len(released) == len(names)
    assert len(names) < len(held) or not follower._held
    return released


async def test_namespaces_take_turns_when_frameworks_are_let_go(follower: Follower) -> None:
    flood = [state(f"flood{number}", deleting=True, namespace="other") for number in range(5)]
    assert (await let_go(follower, *flood, state("own", deleting=True)))[:3] == ["flood0", "own", "flood1"]


async def test_a_framework_whose_release_is_refused_holds_up_no_other(follower: Follower) -> None:
    held = (state(name, deleting=True) for name in ("first", "second", "refused"))
    assert await let_go(follower, *held) == ["first", "second"]


FLOODS: dict[str, Callable[[Pending, int], None]] = {
    "rosters": lambda pending, number: pending.add_roster(roster(number)),
    "events": lambda pending, number: pending.add_rows(seen_event(number)),
    "events of no Framework": lambda pending, number: pending.add_early(seen_event(number)),
    "states": lambda pending, number: pending.add(state("flood", number, namespace="other"), is_gone=False),
    "deleted": lambda pending, number: pending.add(state(f"fw{number}", namespace="other"), is_gone=True),
}


def roster(number: int, document: str = "x" * 1000) -> ConfigMap:
    metadata = {"name": f"c{number}", "namespace": "other", "uid": f"c{number}", "resourceVersion": "1"}
    found = {"metadata": metadata, "data": {names.ROSTER_KEY: document, "else": "x" * 1_000_000}}
    return msgspec.convert(found, ConfigMap).slim()


@pytest.mark.parametrize(("attempt", "is_kept"), [(2**31 - 1, True), (2**31, False), (-1, False)])
def test_a_roster_of_an_attempt_that_cannot_be_is_passed_over(attempt: int, is_kept: bool) -> None:
    """A database that refused its row had each other one of the batch written alone."""
    document = {"framework": {"uid": "u", "attemptID": attempt}, "complete": True}
    assert (roster(0, json.dumps(document)).rows() is not None) is is_kept


def seen_event(number: int) -> Seen:
    return Seen(time.time(), rows=Changes("x", "other", events=[{"uid": str(number), "message": "x" * 1000}]))


@pytest.mark.parametrize("flood", FLOODS)
async def test_what_waits_of_one_namespace_pushes_out_nothing_of_another(
    monkeypatch: pytest.MonkeyPatch, flood: str
) -> None:
    monkeypatch.setattr("frameworkhistory.follow.pending.PENDING_BYTES", 100 * SEEN_BYTES)
    pending = Pending()
    for number in range(5):
        pending.add(state(version=number), is_gone=False)
    for number in range(200):
        FLOODS[flood](pending, number)
    assert 100 < pending.passed_over < 190
    assert all(waiting for place in pending._waiting.values() for waiting in place.states.values())
    found = [one for _ in range(100) for one in pending.take()]
    assert sum(one.namespace == "lab" for one in found) == 5
    assert len(found) + len(pending.take_early((), time.time() + 1)) == 205 - pending.passed_over
    assert (pending._spare, pending._sizes) == ({}, {})
