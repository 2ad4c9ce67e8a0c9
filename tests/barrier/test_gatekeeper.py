"""Whether the gate is open: what is seen, and when, by whom. Each row is a flow under a clock of the test's own."""

import io
from typing import Any

import pytest

from frameworkbarrier.errors import BarrierError, EpochEndedError, OutputError
from frameworkbarrier.gate.epoch import InEpochs, follow
from frameworkbarrier.gate.gate import Gatekeeper, Released, Waiting
from frameworkbarrier.gate.wait import Progress, wait
from frameworkbarrier.log import Log
from frameworkbarrier.settings import OwnTask
from tests.barrier.gangs import behind, closed, gang, observation, roster, uid
from tests.barrier.test_wait import ME
from tests.barrier.test_wait import Script as Reader

WORKER_1 = OwnTask("worker", 1, uid("worker", 1))


def decided(gatekeeper: Gatekeeper, document: dict[str, Any]) -> str:
    """What it decides, and when it wants to decide again."""
    try:
        decision = gatekeeper.decide(observation(document))
    except BarrierError as end:
        return str(end)
    if isinstance(decision, Released):
        return f"open for {decision.role.name}-{decision.task.index}" if decision.role and decision.task else "open"
    due_in = gatekeeper.due_in()
    return str(decision) if due_in is None else f"{decision}; again in {due_in:g} s"


@pytest.mark.parametrize(
    ("own", "document", "decision"),
    [
        pytest.param(WORKER_1, roster({"ps": 1, "worker": 2}), "open for worker-1", id="a complete gang lists it"),
        pytest.param(
            WORKER_1,
            roster({"worker": 3}, ready=1, waitingFor=[{"task": "worker-0", "why": "Pending"}]),
            "1/3: worker-0 Pending, 1 more",
            id="an incomplete gang names who is missing",
        ),
        pytest.param(
            OwnTask("worker", 1, uid("worker", 1, instance=1)),
            roster({"worker": 3}),
            "2/3: worker-1 (this Pod) is not recorded yet",
            id="another instance of this Pod is listed",
        ),
        pytest.param(
            OwnTask("worker", 3, uid("worker", 3)),
            roster({"worker": 3}),
            "2/3: worker-3 (this Pod) is not recorded yet",
            id="this index is not listed",
        ),
        pytest.param(
            OwnTask("worker", 1, uid("worker", 2)),
            roster({"worker": 3}),
            "2/3: worker-1 (this Pod) is not recorded yet",
            id="the UID is that of a neighbour",
        ),
        pytest.param(
            OwnTask(None, None, uid("ps", 0)),
            roster({"ps": 1, "worker": 2}),
            "open for ps-0",
            id="a Pod that knows only its UID is found by it",
        ),
        pytest.param(OwnTask(None, None, None), roster({"worker": 1}), "open", id="a Pod does not know who it is"),
        pytest.param(ME, gang(1, 2, 3), "open for worker-0", id="who does not restart in place needs no start"),
        pytest.param(ME, closed(1, **behind(1)), "1/2: 1 Task", id="who does not restart in place is never behind"),
    ],
)
def test_a_complete_gang_opens_the_gate_for_whom_it_lists(
    own: OwnTask, document: dict[str, Any], decision: str
) -> None:
    assert decided(Gatekeeper(own), document) == decision


def test_a_count_without_names_is_shown_as_a_count() -> None:
    assert str(Waiting(3, 5, ())) == "3/5: 2 Tasks"
    assert str(Waiting(4, 5, ())) == "4/5: 1 Task"
    assert str(Waiting(5, 5, ())) == "5/5: the gang to be complete"


OPEN, CLOSED = "open for worker-0", "1/2: 1 Task"
BEHIND = "epoch 1 has begun without this start of the Pod: worker-1 exited with 1: boom"
NO_EPOCHS = "FB_RESTART=in-place: the gang has no epoch, so nobody restarts it"
ENDS = "epoch 4 begins: worker-1 exited with 1: boom"


def listed(start: int, *, own: int) -> str:
    return f"1/2: worker-0 (this Pod) is listed with start {start}, this is {own}"


@pytest.mark.parametrize(
    ("start", "steps"),
    [
        pytest.param(2, [(0, gang(1, 2, 3), OPEN)], id="this start is listed"),
        pytest.param(2, [(0, gang(1, 4, 3), listed(4, own=2))], id="a later start is listed"),
        pytest.param(
            2,
            [(at, gang(1, 1, 3), listed(1, own=2)) for at in (0, 11, 600)],
            id="an earlier start is listed: the peers may run since before this one, and it never joins them",
        ),
        pytest.param(2, [(0, closed(1), CLOSED), (600, closed(1), CLOSED)], id="the gate is closed"),
        pytest.param(2, [(0, closed(1, **behind(2)), BEHIND)], id="this start is of an earlier epoch"),
        pytest.param(2, [(0, closed(1, **behind(1)), CLOSED)], id="the start before was of an earlier epoch"),
        pytest.param(2, [(0, closed(1, **behind(2, index=1)), CLOSED)], id="somebody else is of an earlier epoch"),
        pytest.param(
            1,
            [
                (0, closed(3), CLOSED),
                (1, gang(3, 4, 2), f"{listed(4, own=1)}; again in 10 s"),
                (10.5, gang(3, 4, 2), f"{listed(4, own=1)}; again in 0.5 s"),
                (11, gang(3, 4, 2), OPEN),
            ],
            id="a roster that insists is right if the gate was seen closed",
        ),
        pytest.param(
            1,
            [
                (0, closed(3), CLOSED),
                (0, gang(3, 4, 2), f"{listed(4, own=1)}; again in 10 s"),
                (8, closed(4), CLOSED),
                (9, gang(4, 5, 2), f"{listed(5, own=1)}; again in 10 s"),
                (12, gang(4, 5, 2), f"{listed(5, own=1)}; again in 7 s"),
            ],
            id="a gate that closes again begins the ten seconds anew",
        ),
        pytest.param(
            1,
            [(0, roster({"worker": 2}, ready=1), CLOSED), (1, roster({"worker": 2}), NO_EPOCHS)],
            id="nobody restarts the gang",
        ),
        pytest.param(1, [(0, gang(3, 1, 1), OPEN), (1, closed(4), ENDS)], id="a later epoch begins"),
        pytest.param(
            1,
            [(0, gang(3, 1, 1), OPEN), (1, closed(3, **behind(1)), CLOSED), (2, gang(3, 1, 1, generation=9), OPEN)],
            id="the gate has opened, and its epoch goes on",
        ),
        pytest.param(
            1,
            [(0, gang(3, 1, 1), OPEN), (1, roster({"worker": 2}), listed(0, own=1)), (2, closed(4), ENDS)],
            id="the gate has opened, and somebody writes who knows no epochs",
        ),
        pytest.param(
            1,
            [
                (0, closed(3), CLOSED),
                (1, gang(3, 1, 1), OPEN),
                *((at, gang(3, 2, 1), listed(2, own=1)) for at in (2, 99)),
            ],
            id="the gate has opened, and no other start counts any more",
        ),
    ],
)
def test_in_a_gang_that_restarts_in_place(start: int, steps: list[tuple[float, dict[str, Any], str]]) -> None:
    now = 0.0
    gatekeeper = InEpochs(ME, start, Log(stream=io.StringIO()), clock=lambda: now)
    for now, document, decision in steps:
        assert decided(gatekeeper, document).startswith(decision), now


def test_the_wait_looks_again_when_the_ten_seconds_are_over() -> None:
    script, said = Reader((0, observation(closed(3))), (1, observation(gang(3, 4, 2)))), io.StringIO()
    log = Log(stream=said)
    gatekeeper = InEpochs(ME, 1, log, clock=lambda: script.now)
    opened = wait(script, gatekeeper, 600, Progress(log, lambda: script.now))
    assert script.now == 11
    assert opened.task
    assert opened.task.starts == 4
    assert "has counted 1: the number of the roster counts" in said.getvalue()


# --- the end of the epoch --------------------------------------------------------------------------------------------


def ended(*items: tuple[float, Any], announce: Any, grace_sec: int = 0) -> tuple[str, str, list[float]]:
    """Why a barrier ends whose gate has opened in epoch 3, what it logs, and how long it sleeps."""
    said, slept = io.StringIO(), list[float]()
    log, opened = Log(stream=said), observation(gang(3, 1, 1))
    gatekeeper = InEpochs(ME, 1, log)
    gatekeeper.decide(opened)
    with pytest.raises(EpochEndedError) as end:
        follow(Reader(*items), gatekeeper, opened.gang, lambda _: 1, log, announce, grace_sec, sleep=slept.append)
    return str(end.value), said.getvalue(), slept


def test_the_application_gets_a_notice_and_its_grace() -> None:
    notices: list[str] = []
    end, said, slept = ended((0, observation(closed(4))), announce=notices.append, grace_sec=30)
    assert end == f"{ENDS}: all containers of this Pod start again"
    assert (notices, slept) == ([ENDS], [30])
    assert f"{ENDS}: the application has 30 s" in said


def test_a_notice_that_cannot_be_written_holds_nothing_up() -> None:
    def announce(_: str) -> None:
        raise OutputError("no space left")

    end, said, slept = ended((0, observation(closed(4))), announce=announce)
    assert end.startswith(ENDS)
    assert "the application gets no notice: no space left" in said
    assert slept == []


def test_whatever_ends_the_barrier_of_an_open_gate_all_containers_start_again() -> None:
    end, _, _ = ended((0, ZeroDivisionError("unthought of")), announce=pytest.fail)
    assert end == "the barrier failed: ZeroDivisionError: unthought of: all containers of this Pod start again"
