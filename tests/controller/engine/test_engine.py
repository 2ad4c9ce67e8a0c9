"""The engine between caches and requests that are stubs: what starts, what is read again, what is ignored."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from frameworkcontroller.api import names
from frameworkcontroller.api.codes import Code
from frameworkcontroller.api.framework import FRAMEWORK_DECODER
from frameworkcontroller.api.states import State
from frameworkcontroller.core.effects import (
    CreateConfigMap,
    DeleteConfigMap,
    DeleteWorkload,
    Done,
    Effect,
    Failed,
    Missing,
    Outcome,
    PatchWorkload,
    Refused,
    StaleStatus,
    WorkloadEffect,
    WriteStatus,
)
from frameworkcontroller.core.machines.attempt import complete
from frameworkcontroller.core.machines.framework import new_status
from frameworkcontroller.core.pods import facts
from frameworkcontroller.core.policies.completion import predefined
from frameworkcontroller.core.reconcile.decision import Decision
from frameworkcontroller.core.reconcile.task_pass import TASKS_IN_A_ROW
from frameworkcontroller.core.status.reports import Transition
from frameworkcontroller.engine.config.settings import KueueSettings, Settings
from frameworkcontroller.engine.engine import Engine
from frameworkcontroller.engine.observe.history import WRITTEN_SECONDS
from frameworkkube.errors import NotFoundError, ServerError
from tests.controller.engine.lines import Lines
from tests.kube.scripted import refuse_to_list
from tests.kube.virtualtime import beside_a_thread, in_virtual_time

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from frameworkcontroller.core.effects import Subject
    from frameworkcontroller.core.pods.facts import RoleFacts
    from frameworkcontroller.core.reconcile.config import CoreConfig

FRAMEWORKS = f"/apis/{names.API_VERSION}/{names.PLURAL}"
SPEC = {
    "executionType": "Start",
    "taskRoles": [
        {
            "name": "worker",
            "taskNumber": 1,
            "task": {"pod": {"spec": {"containers": [{"name": "main", "image": "x"}]}}},
        }
    ],
}


def framework(version: int = 1, uid: str = "u", generation: int = 1) -> dict[str, Any]:
    metadata = {
        "name": "fw",
        "namespace": "n",
        "uid": uid,
        "resourceVersion": str(version),
        "generation": generation,
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    return {"apiVersion": names.API_VERSION, "kind": names.KIND, "metadata": metadata, "spec": SPEC}


class Client:
    """Lists these Frameworks, watches what a test puts into the queue, and answers reads in their order."""

    def __init__(self, *frameworks: dict[str, Any]) -> None:
        self.frameworks = frameworks
        self.events: asyncio.Queue[bytes] = asyncio.Queue()
        self.reads: list[Any] = []

    async def request(self, method: str, path: str, **_more: Any) -> bytes:
        assert method == "GET"
        items = self.frameworks if path == FRAMEWORKS else ()
        return json.dumps({"metadata": {"resourceVersion": "1"}, "items": items}).encode()

    async def stream(
        self, path: str, query: Mapping[str, str], *, on_open: Callable[[], None], **_more: Any
    ) -> AsyncIterator[bytes]:
        refuse_to_list(query)
        on_open()
        while path == FRAMEWORKS:
            yield await self.events.get()
        await asyncio.Event().wait()

    async def get(self, path: str, **_more: Any) -> bytes:
        assert path.endswith("/namespaces/n/frameworks/fw")
        found = self.reads.pop(0)
        if isinstance(found, Exception):
            raise found
        return found if isinstance(found, bytes) else json.dumps(found).encode()

    async def create(self, path: str, _body: bytes, **_more: Any) -> bytes:
        assert path == "/api/v1/namespaces/n/events"
        return json.dumps(framework()).encode()

    def shows(self, kind: str, seen: dict[str, Any]) -> None:
        self.events.put_nowait(json.dumps({"type": kind, "object": seen}).encode())


class Performer:
    """Remembers effects; their outcomes are `Done`, after the ones that a test gives."""

    def __init__(self, *outcomes: Outcome) -> None:
        self.outcomes, self.performed = list(outcomes), list[Effect]()
        self.hold: asyncio.Event | None = None

    async def perform(self, subject: Subject, effect: Effect) -> Outcome:
        assert (subject.namespace, subject.name) == ("n", "fw")
        self.performed.append(effect)
        if self.hold is not None:
            await self.hold.wait()
        if isinstance(effect, WriteStatus) and self.outcomes:
            return self.outcomes.pop(0)
        return Done(uid="made", resource_version=str(100 + len(self.performed)))

    @property
    def writes(self) -> list[WriteStatus]:
        return [effect for effect in self.performed if isinstance(effect, WriteStatus)]


@contextlib.asynccontextmanager
async def running(
    client: Client, performer: Performer, config: CoreConfig | None = None, **settings: Any
) -> AsyncIterator[Engine]:
    engine = Engine(client, performer, config or Settings().core, **settings)  # type: ignore[arg-type]
    task = asyncio.create_task(engine.run())
    try:
        yield engine
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def until(condition: Callable[[], object], every: float = 0.2) -> None:
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(every)
    raise AssertionError("it did not happen")


@beside_a_thread
async def test_a_framework_that_is_listed_gets_its_status_before_anything_is_created() -> None:
    performer = Performer()
    async with running(Client(framework()), performer) as engine:
        await until(lambda: len(performer.performed) > 2)
        assert engine.has_synced
        kinds = [type(effect).__name__ for effect in performer.performed]
        assert "WriteStatus" in kinds
        assert kinds.index("WriteStatus") < kinds.index("CreateConfigMap")


@in_virtual_time
async def test_a_framework_whose_status_another_writer_changed_is_read_until_the_answer_can_be_read() -> None:
    client, performer = Client(framework()), Performer(StaleStatus())
    odd = framework(version=7) | {"status": {"startTime": "yesterday"}}
    client.reads = [ServerError(500, "InternalError", "no"), b'{"metadata": 3}', odd, framework(version=9)]
    async with running(client, performer) as engine:
        await until(lambda: len(performer.writes) > 1)
        assert [write.resource_version for write in performer.writes[:2]] == ["1", "9"]
        assert b'workqueue_retries_total{controller="framework",name="framework"} 1.0' in engine.metrics.text()


@in_virtual_time
async def test_a_framework_that_is_gone_when_it_is_read_again_is_left_alone() -> None:
    client, performer = Client(framework()), Performer(StaleStatus())
    client.reads = [NotFoundError(404, "NotFound", "gone")]
    async with running(client, performer):
        await until(lambda: not client.reads)
        await asyncio.sleep(60)
        assert len(performer.writes) == 1


@in_virtual_time
async def test_a_framework_that_was_read_is_not_replaced_by_an_earlier_one_of_its_name_in_the_cache() -> None:
    client, performer = Client(framework()), Performer(StaleStatus())
    client.reads = [framework(version=7, uid="v")]
    async with running(client, performer):
        await until(lambda: not client.reads)
        await asyncio.sleep(60)
        assert len(performer.writes) == 1
        client.shows("MODIFIED", framework(version=7, uid="v"))
        await until(lambda: len(performer.writes) > 1)
        assert [write.resource_version for write in performer.writes[:2]] == ["1", "7"]


@in_virtual_time
async def test_the_outcome_of_an_effect_is_ignored_once_its_framework_is_deleted() -> None:
    client, performer, lines = Client(framework()), Performer(), Lines()
    performer.hold = asyncio.Event()
    async with running(client, performer, lines=lines):
        await until(lambda: performer.writes)
        status = msgspec.to_builtins(performer.writes[0].status)
        client.shows("MODIFIED", framework(version=5) | {"status": status})
        client.shows("DELETED", framework(version=6) | {"status": status})
        await asyncio.sleep(1)
        assert any(b"OnFrameworkDeletion" in line for line in lines.written)
        begun = len(performer.performed)
        performer.hold.set()
        await asyncio.sleep(60)
        assert len(performer.performed) == begun


@in_virtual_time
async def test_the_history_of_a_deleted_framework_has_its_status_although_it_cannot_be_decoded() -> None:
    status = {"state": "AttemptRunning", "attemptStatus": {"taskRoleStatuses": [{"name": "worker"}]}}
    client, lines = Client(framework() | {"status": status}), Lines()
    async with running(client, Performer(), lines=lines):
        client.shows("DELETED", framework(version=6) | {"status": status})
        await until(lambda: lines.written)
    trigger, document = lines.written[0].split(b": ObjectSnapshot: ")
    assert trigger.endswith(b"OnFrameworkDeletion")
    assert json.loads(document)["status"] == status


@in_virtual_time
async def test_nothing_starts_while_this_process_may_not_act() -> None:
    performer = Performer()
    async with running(Client(framework()), performer, may_act=lambda: False) as engine:
        await until(lambda: engine.has_synced)
        await asyncio.sleep(60)
        assert performer.performed == []


@pytest.mark.parametrize(
    ("outcome", "counted"),
    [
        (Missing(), 'code="404",outcome="Missing"'),
        (Refused(403, "not allowed"), 'code="403",outcome="Refused"'),
        (Refused(413, "request is too large"), 'code="413",outcome="Refused"'),
        (Failed("no answer"), 'code="",outcome="Failed"'),
    ],
    ids=["not found", "forbidden", "too large", "failed"],
)
@in_virtual_time
async def test_a_status_that_is_not_written_is_logged_and_counted_by_its_reason(outcome: Outcome, counted: str) -> None:
    performer = Performer(outcome)
    with capture_logs() as logs:
        async with running(Client(framework()), performer) as engine:
            metric = f"frameworkcontroller_status_write_failures_total{{{counted}}} 1.0"
            await until(lambda: metric in engine.metrics.text().decode())
    said = [entry for entry in logs if entry["log_level"] == "warning" and entry.get("framework") == "n/fw"]
    assert said[0]["event"] in {"request failed, will be tried again", "status not written: there is no such Framework"}


def framework_of(tasks: int, *, pod: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    role = {"name": "worker", "taskNumber": tasks, "task": {"pod": pod or {}}}
    return framework() | {"spec": SPEC | {"taskRoles": [role]} | spec}


@in_virtual_time
async def test_what_comes_during_a_long_pass_is_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever was queued for the rest of a pass was not queued again for what came meanwhile."""
    monkeypatch.setattr("frameworkcontroller.engine.engine.DECIDING_SECONDS", -1.0)
    client, performer = Client(framework_of(1)), Performer()
    async with running(client, performer) as engine:
        await until(lambda: performer.writes)
        await asyncio.sleep(0.1)
        work = engine._works["n", "fw"]
        seen: list[bool] = []
        monkeypatch.setattr(work.reconciler, "touch_config_map", lambda: seen.append(work.begun is not None))
        passes = 0

        def counted(*_args: Any, **_kwargs: Any) -> Any:
            nonlocal passes
            passes += 1
            if passes == 1:
                asyncio.get_running_loop().call_soon(engine.on_config_map, ("n", "fw"))
                yield
            return Decision()

        monkeypatch.setattr(work.reconciler, "steps", counted)
        engine.on_config_map(("n", "fw"))
        await asyncio.sleep(0.2)
        assert seen == [False, True], "the second event comes in the middle of the pass of the first"
        assert passes == 2


@in_virtual_time
async def test_changes_of_many_tasks_are_logged_in_turns() -> None:
    engine = Engine(Client(), Performer(), Settings().core)  # type: ignore[arg-type]
    work = engine._start(("n", "fw"), FRAMEWORK_DECODER.decode(json.dumps(framework())))
    ended = Transition("task", "fw-worker-0", State.RUNNING, State.COMPLETED)
    with capture_logs() as logs:
        pauses = sum(1 for _ in engine._report(work, Decision(reports=[ended] * 10_000)))
    assert len(logs) == 10_000
    assert pauses == 10_000 // TASKS_IN_A_ROW


@pytest.mark.parametrize(
    ("waits", "goes_on"),
    [({"executionType": "Create"}, {"executionType": "Start"}), ({"suspend": True}, {"suspend": False})],
    ids=["Create", "suspended"],
)
@beside_a_thread
async def test_a_framework_that_is_not_to_start_is_kept_in_outline_once_it_has_its_status(
    waits: dict[str, Any], goes_on: dict[str, Any]
) -> None:
    """300 bytes became 7.7 MB, for as long as the Framework waited."""
    waiting = framework_of(10_000, **waits)
    client, performer = Client(waiting), Performer()
    async with running(client, performer) as engine:
        await until(lambda: performer.writes)
        (write,) = performer.writes
        assert len(write.summary.roles[0].task_statuses) == 10_000
        written = waiting | {"status": msgspec.to_builtins(write.status)}
        client.shows("MODIFIED", written | {"metadata": waiting["metadata"] | {"resourceVersion": "101"}})
        await until(lambda: not engine._works)
        view = engine._caches.view(("n", "fw"))
        assert view is not None
        assert view.framework.size < 1000
        text = engine.metrics.text()
        assert b'frameworkcontroller_frameworks{state="AttemptCreationPending"} 1.0' in text
        assert f"frameworkcontroller_suspended_frameworks {float('suspend' in waits)}".encode() in text
        # It is started: the cache has all of it again, and nothing of its status is made anew.
        meta = waiting["metadata"] | {"resourceVersion": "102", "generation": 2}
        client.shows("MODIFIED", written | {"metadata": meta, "spec": waiting["spec"] | goes_on})
        await until(lambda: any(isinstance(effect, CreateConfigMap) for effect in performer.performed))
        before, after = (one.summary.roles[0] for one in performer.writes[:2])
        assert after.task_statuses[9999].instance_uid == before.task_statuses[9999].instance_uid


class OrphanClient(Client):
    """There is a ConfigMap that the Framework owns, of an hour later than the Framework."""

    async def request(self, method: str, path: str, **more: Any) -> bytes:
        if path != "/api/v1/configmaps":
            return await super().request(method, path, **more)
        owner = {"apiVersion": names.API_VERSION, "kind": names.KIND, "name": "fw", "uid": "u", "controller": True}
        meta = {"name": "fw-attempt", "namespace": "n", "uid": "orphan", "resourceVersion": "1"}
        meta |= {"labels": {names.FRAMEWORK_NAME: "fw"}, "ownerReferences": [owner]}
        item = {"metadata": meta | {"creationTimestamp": "2026-01-01T01:00:00Z"}}
        return json.dumps({"metadata": {"resourceVersion": "1"}, "items": [item]}).encode()


@in_virtual_time
async def test_a_suspended_framework_keeps_no_config_map_whose_creation_a_dead_controller_has_asked_for() -> None:
    stored = framework() | {"spec": SPEC | {"suspend": True}}
    status = msgspec.to_builtins(new_status("fw", datetime(2026, 1, 1, tzinfo=UTC)))
    stored["status"] = status | {"suspendedSince": "2026-01-01T00:00:00Z", "observedGeneration": 1}
    client, performer = OrphanClient(stored), Performer()
    client.reads = [stored]
    async with running(client, performer):
        await until(lambda: any(isinstance(effect, DeleteConfigMap) for effect in performer.performed))
    assert [effect.uid for effect in performer.performed if isinstance(effect, DeleteConfigMap)] == ["orphan"]
    assert not any(isinstance(effect, CreateConfigMap) for effect in performer.performed)


class WorkloadClient(Client):
    """There is a Workload of the Framework, which nobody has finished."""

    async def request(self, method: str, path: str, **more: Any) -> bytes:
        if not path.endswith("/workloads"):
            return await super().request(method, path, **more)
        owner = {"apiVersion": names.API_VERSION, "kind": names.KIND, "name": "fw", "uid": "u", "controller": True}
        meta = {"name": names.workload_name("fw", "u"), "namespace": "n", "uid": "w", "resourceVersion": "1"}
        meta |= {"labels": {names.FRAMEWORK_NAME: "fw"}, "ownerReferences": [owner]}
        return json.dumps({"metadata": {"resourceVersion": "1"}, "items": [{"metadata": meta}]}).encode()


@in_virtual_time
@pytest.mark.parametrize("end", ["completed", "suspended"])
async def test_the_workload_of_a_framework_at_rest_is_finished_or_given_up(end: str) -> None:
    """A controller has died between the status and the Workload."""
    stored = framework() | {"spec": SPEC | {"suspend": end == "suspended"}}
    status = new_status("fw", datetime(2026, 1, 1, tzinfo=UTC))
    if end == "completed":
        status = complete(status, predefined(Code.SUCCEEDED, "all well"))
        status = replace(status, state=State.COMPLETED, completion_time=status.start_time)
    since = {"suspendedSince": "2026-01-01T00:00:00Z"} if end == "suspended" else {}
    stored["status"] = msgspec.to_builtins(status) | {"observedGeneration": 1} | since
    client, performer = WorkloadClient(stored), Performer()
    client.reads = [stored]
    settings = replace(Settings(), kueue=KueueSettings(enabled=True))
    async with running(client, performer, config=settings.core):
        await until(lambda: any(isinstance(effect, WorkloadEffect) for effect in performer.performed))
    (effect,) = (effect for effect in performer.performed if isinstance(effect, WorkloadEffect))
    assert isinstance(effect, PatchWorkload if end == "completed" else DeleteWorkload)
    assert effect.uid == "w"


@in_virtual_time
async def test_large_templates_are_read_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    readers: list[int] = []

    def read(templates: Mapping[bytes, msgspec.Raw]) -> dict[bytes, RoleFacts]:
        readers.append(threading.get_ident())
        return facts.read_all(templates)

    monkeypatch.setattr("frameworkcontroller.engine.engine.read_all", read)
    pod = {"metadata": {"annotations": {"x": "y" * 100_000}}, "spec": {"containers": [{"name": "main"}]}}
    client, performer = Client(framework_of(3, pod=pod)), Performer()
    async with running(client, performer):
        await until(lambda: any(isinstance(effect, CreateConfigMap) for effect in performer.performed))
        assert len(readers) == 1
        assert readers[0] != threading.get_ident()


class HeldLines(Lines):
    """Lines that are written when a test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[Callable[[], object]] = []

    def put(
        self, line: Callable[[], bytes], size: int, owner: str = "", done: Callable[[], object] | None = None
    ) -> None:
        super().put(line, size, owner)
        self.waiting += [] if done is None else [done]


@pytest.mark.parametrize("is_read", [True, False], ids=["a reader", "no reader"])
@beside_a_thread
async def test_a_status_waits_for_the_history_that_it_overwrites_but_not_for_long(is_read: bool) -> None:
    end = {"code": 1, "phrase": "x", "type": {"name": "Failed", "attributes": []}, "diagnostics": ""}
    first = Performer()
    retried = framework_of(1, retryPolicy={"fancyRetryPolicy": False, "maxRetryCount": -2})
    async with running(Client(retried), first):
        await until(lambda: first.writes)
    status = msgspec.to_builtins(first.writes[0].status) | {"state": "AttemptCompleted", "completionTime": None}
    status["attemptStatus"] |= {"completionStatus": end, "completionTime": status["startTime"]}
    client, performer, lines = Client(retried | {"status": status}), Performer(), HeldLines()
    async with running(client, performer, lines=lines):
        await until(lambda: lines.waiting, WRITTEN_SECONDS / 100)
        assert b"OnFrameworkRetry" in b"".join(lines.written)
        before, begun = len(performer.writes), asyncio.get_running_loop().time()
        assert all(write.status.attempt_status.id == 0 for write in performer.writes)
        if is_read:
            lines.waiting.pop()()
        await until(lambda: len(performer.writes) > before, WRITTEN_SECONDS / 100)
        assert performer.writes[before].status.attempt_status.id == 1
        assert (asyncio.get_running_loop().time() - begun < WRITTEN_SECONDS / 2) is is_read
