"""The engine between caches and requests that are stubs: what starts, what is read again, what is ignored."""

import asyncio
import gc
import json
import threading
import weakref
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from frameworkcontroller.api.framework import FRAMEWORK_DECODER
from frameworkcontroller.api.states import State
from frameworkcontroller.api.status import Hang
from frameworkcontroller.core.effects import (
    CreateConfigMap,
    Done,
    Effect,
    Failed,
    Missing,
    Outcome,
    Refused,
    StaleStatus,
)
from frameworkcontroller.core.pods import facts
from frameworkcontroller.core.pods.facts import RoleFacts
from frameworkcontroller.core.reconcile.decision import Decision
from frameworkcontroller.core.reconcile.task_pass import TASKS_IN_A_ROW
from frameworkcontroller.core.status.reports import Transition
from frameworkcontroller.engine.actions import LARGE_BYTES, Work
from frameworkcontroller.engine.observe.history import WRITTEN_SECONDS
from frameworkcontroller.engine.run import log_loop_error
from frameworkcontroller.engine.workqueue import WAY_TURNS
from frameworkkube.errors import NotFoundError, ServerError
from tests.controller.engine.stubs import ROLE, SPEC, Client, Lines, Performer, engine_of, framework, running, until
from tests.kube.virtualtime import beside_a_thread, in_virtual_time


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


@pytest.mark.parametrize("is_gone", [True, False], ids=["gone", "another"])
@in_virtual_time
async def test_a_framework_that_is_another_or_gone_when_it_is_read_again_is_left_alone_until_it_is_seen(
    is_gone: bool,
) -> None:
    client, performer = Client(framework()), Performer(StaleStatus())
    client.reads = [NotFoundError(404, "NotFound", "gone", status={"code": 404}) if is_gone else framework(7, "v")]
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
async def test_a_framework_that_is_deleted_is_let_go_although_its_status_waits_for_its_turn() -> None:
    """One of 1.4 MB that was deleted and made again without end filled a gibibyte within a minute."""
    performer, kept = Performer(), list[weakref.ref[Work]]()
    performer.hold = asyncio.Event()
    large = {"spec": SPEC | {"description": "x" * 2 * LARGE_BYTES}}
    client = Client(framework() | large)
    async with running(client, performer) as engine:
        for number in range(2, 22):
            await until(lambda: ("n", "fw") in engine._works)
            await asyncio.sleep(1)
            kept.append(weakref.ref(engine._works["n", "fw"]))
            client.shows("DELETED", framework(version=2 * number, uid=f"uid{number - 1}") | large)
            client.shows("ADDED", framework(version=2 * number + 1, uid=f"uid{number}") | large)
        await asyncio.sleep(1)
        gc.collect()
        assert sum(one() is not None for one in kept) <= 2, "one status is being written"


@in_virtual_time
async def test_what_a_namespace_shares_is_kept_by_its_frameworks() -> None:
    """Beside a thousand other namespaces its Frameworks would have had two of each limit."""
    async with running(Client(framework()), Performer()) as engine:
        await until(lambda: engine._works)
        engine._shares._last.clear()
        gc.collect()
        assert "n" in engine._shares._kept


@in_virtual_time
async def test_nothing_starts_while_this_process_may_not_act() -> None:
    performer = Performer()
    async with running(Client(framework()), performer, may_act=lambda: False) as engine:
        await until(lambda: engine.has_synced)
        await asyncio.sleep(60)
        assert performer.performed == []


@in_virtual_time
async def test_what_meets_a_moment_without_the_lease_is_done_after_it() -> None:
    """Where a renewal came late nobody did it any more, nor anything else of its kind for this Framework."""
    performer, holds, time = Performer(), False, asyncio.get_running_loop().time
    async with running(Client(framework()), performer, may_act=lambda: holds, monotonic=time) as engine:
        await until(lambda: engine.has_synced)
        await asyncio.sleep(1)
        holds = True
        await until(lambda: len(performer.writes) == 2)


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        pytest.param(Missing(), "404", id="not found"),
        pytest.param(Refused(403, "not allowed"), "403", id="forbidden"),
        pytest.param(Refused(413, "request is too large"), "413", id="too large"),
        pytest.param(Failed("no answer"), "", id="failed"),
    ],
)
@in_virtual_time
async def test_a_status_that_is_not_written_is_logged_and_counted_by_its_reason(outcome: Outcome, code: str) -> None:
    counted = f'status_write_failures_total{{code="{code}",outcome="{type(outcome).__name__}"}} 1.0'
    with capture_logs() as logs:
        async with running(Client(framework()), Performer(outcome)) as engine:
            await until(lambda: counted in engine.metrics.text().decode())
    said = [entry for entry in logs if entry["log_level"] == "warning" and entry.get("framework") == "n/fw"]
    assert said[0]["event"] in {"request failed, will be tried again", "status not written: there is no such Framework"}


def framework_of(tasks: int, *, pod: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    role = ROLE | {"taskNumber": tasks, "task": {"pod": pod or {}}}
    return framework() | {"spec": SPEC | {"taskRoles": [role]} | spec}


async def test_between_decisions_that_take_long_a_request_gets_on_by_several_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With one turn after each ten milliseconds, gangs beside a busy namespace took 0.3 s instead of 0.06."""
    monkeypatch.setattr("frameworkcontroller.engine.workqueue.DECIDING_SECONDS", -1.0)
    monkeypatch.setattr("frameworkcontroller.engine.workqueue.WAY_SECONDS", 60.0)
    turns, decided = 0, list[int]()
    async with running(Client(framework_of(1)), Performer()) as engine:
        monkeypatch.setattr(engine, "_decide", lambda *_args: decided.append(turns))
        for number in range(5):
            engine._queue.add(("n", str(number)))
        while turns < 100:
            await asyncio.sleep(0)
            turns += 1
    assert min(later - earlier for earlier, later in pairwise(decided[:5])) >= WAY_TURNS


@in_virtual_time
async def test_what_comes_during_a_long_pass_is_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever was queued for the rest of a pass was not queued again for what came meanwhile."""
    monkeypatch.setattr("frameworkcontroller.engine.workqueue.DECIDING_SECONDS", -1.0)
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
    engine = engine_of(Client(), Performer())
    work = engine._start(("n", "fw"), FRAMEWORK_DECODER.decode(json.dumps(framework())))
    ended = Transition("task", "fw-worker-0", State.RUNNING, State.COMPLETED)
    with capture_logs() as logs:
        pauses = list(engine._report(work, Decision(reports=[ended] * 10_000)))
    assert (len(logs), len(pauses)) == (10_000, 10_000 // TASKS_IN_A_ROW)


@in_virtual_time
async def test_a_hang_that_becomes_known_is_counted() -> None:
    engine = engine_of(Client(), Performer())
    work = engine._start(("n", "fw"), FRAMEWORK_DECODER.decode(json.dumps(framework())))
    hang = Hang(time=datetime.now(UTC), attempt=0, silent=130, limit=120, why="not known")
    assert list(engine._report(work, Decision(reports=[hang, hang]))) == []
    assert b"frameworkcontroller_gang_hangs_total 2.0" in engine.metrics.text()


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
        await until(lambda: performer.of(CreateConfigMap))
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


def leave_behind(error: Exception) -> None:
    """Let a future of the loop end with an error that nobody retrieves."""
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(log_loop_error)
    loop.create_future().set_exception(error)
    gc.collect()


def fail(error: Exception) -> None:
    """Let a transport fail."""
    context = {"message": "Fatal error", "exception": error, "transport": object()}
    log_loop_error(asyncio.get_running_loop(), context)


@pytest.mark.parametrize(
    ("raises", "error", "level"),
    [
        pytest.param(leave_behind, ConnectionResetError("gone"), "info", id="a connection that nothing waited for"),
        pytest.param(fail, RuntimeError("closed"), "info", id="a transport"),
        pytest.param(leave_behind, ValueError("a defect"), "error", id="any other, with its traceback"),
    ],
)
async def test_an_error_of_the_event_loop_is_one_line_of_the_log(
    raises: Callable[[Exception], None], error: Exception, level: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with capture_logs() as logs:
        raises(error)
    connection = {"event": "a connection ended that nothing waited for", "error": repr(error)}
    what = "Future exception was never retrieved"
    defect = {"event": "error in the event loop", "what": what, "exc_info": error}
    assert logs == [(defect if level == "error" else connection) | {"log_level": level}]
    assert capfd.readouterr().err == ""


@in_virtual_time
async def test_many_outcomes_are_taken_in_by_several_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """4,500 creations that are dropped at once took a turn of 64 ms."""
    performer, taken = Performer(), list[Effect]()
    async with running(Client(framework_of(1)), performer) as engine:
        await until(lambda: performer.writes)
        await asyncio.sleep(0.1)
        work = engine._works["n", "fw"]
        monkeypatch.setattr(work.reconciler, "apply_outcome", lambda effect, *_: taken.append(effect))
        work.outcomes = [(performer.writes[0], Done())] * 100
        engine._decide(("n", "fw"), 0.0)
        assert 0 < len(taken) < 10
        await asyncio.sleep(1)
        assert len(taken) == 100
