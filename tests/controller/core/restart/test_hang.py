"""What a controller makes of the verdict of a sidecar whose gang hangs (docs/reference/progress.md, section 4)."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from frameworkcontroller.api import names
from frameworkcontroller.api.pod import Pod
from frameworkcontroller.api.status import Culprit, Hangs, HungNode
from frameworkcontroller.core.restart.annotations import hang_limit, progress_port
from frameworkcontroller.core.restart.hang import EXIT_CODE, Verdict, as_hang, counted, verdict_of
from tests.controller.core.inplace import verdict_of as said
from tests.controller.core.reconcile.test_runs import run
from tests.controller.core.scenarios.hangs import HANGS
from tests.controller.core.values import POD_UID, START, known, pod

TEXT = said("hang 10 worker-2", 3)


def with_last_line(message: str, code: int = EXIT_CODE, *, runs_again: bool = True) -> Pod:
    ended = {"terminated": {"exitCode": code, "message": message}}
    states = {"state": {"running": {}}, "lastState": ended} if runs_again else {"state": ended}
    return pod("Running", initContainerStatuses=[{"name": names.BARRIER_CONTAINER} | states])


@pytest.mark.parametrize("runs_again", [True, False])
def test_the_last_line_of_a_sidecar_is_its_verdict(runs_again: bool) -> None:
    seen = with_last_line(str(TEXT), runs_again=runs_again)
    found = known(verdict_of(seen, POD_UID))
    assert (found.epoch, found.step, found.culprits[0].task) == (3, 10, "worker-2")
    assert verdict_of(with_last_line(str(TEXT), 88, runs_again=runs_again), POD_UID) is None
    assert verdict_of(seen, "another") is None


@pytest.mark.parametrize(
    "change",
    [{"epoch": -1}, {"epoch": 2**31}, {"silent": "x"}, {"step": 2**60}, {"why": "w" * 65}, {"culprits": [{}]}],
    ids=str,
)
def test_what_is_no_verdict_is_an_exit_as_any_other(change: dict[str, Any]) -> None:
    assert verdict_of(with_last_line(json.dumps(json.loads(str(TEXT)) | change)), POD_UID) is None


@given(st.text() | st.just('{"x":' + "[" * 5000) | st.dictionaries(st.text(), st.integers()).map(json.dumps))
def test_no_last_line_is_an_error(text: str) -> None:
    verdict_of(with_last_line(text), POD_UID)


VERDICT = Verdict(epoch=1, silent=130, limit=120, why="not known", culprits=(), step=10)


@pytest.mark.parametrize(
    ("second", "attempt", "in_a_row", "best"),
    [
        (VERDICT, 0, None, None),
        (replace(VERDICT, epoch=0), 0, None, None),
        (replace(VERDICT, epoch=2), 0, 2, 10),
        (replace(VERDICT, epoch=2, step=4), 0, 2, 10),
        (replace(VERDICT, epoch=2, step=None), 0, 2, 10),
        (replace(VERDICT, epoch=2, step=11), 0, 1, 11),
        (replace(VERDICT, epoch=2, step=4, saved=True), 0, 1, 10),
        (replace(VERDICT, epoch=0), 1, 2, 10),
    ],
)
def test_a_hang_counts_once_and_again_without_a_further_step(
    second: Verdict, attempt: int, in_a_row: int | None, best: int | None
) -> None:
    before: Hangs | UnsetType = counted(UNSET, VERDICT, 0, START) or UNSET
    assert before
    assert (before.in_a_row, before.best_step) == (1, 10)
    after = counted(before, second, attempt, START)
    assert (after and after.in_a_row, after and after.best_step) == (in_a_row, best)


def test_texts_of_a_verdict_are_clean_and_nodes_are_names() -> None:
    culprit = Culprit(task="worker-1\n", node="no name", section="a\0b", stack=("x\ty",))
    found = as_hang(replace(VERDICT, culprits=(culprit,)), 0, START)
    assert found.culprits == (Culprit(task="worker-1 ", section="a b", stack=("x y",)),)


def hangs_on(named: list[tuple[str, ...]], used: set[str]) -> Hangs:
    """What a gang on these nodes remembers of hangs, each of which names culprits on some nodes."""
    hangs: Hangs | UnsetType = UNSET
    for epoch, nodes in enumerate(named):
        culprits = tuple(Culprit(task="worker-1", node=node) for node in nodes)
        hangs = known(counted(hangs, replace(VERDICT, epoch=epoch, culprits=culprits), 0, START, used))
    assert hangs
    return hangs


def test_a_node_that_the_gang_does_not_use_is_never_counted() -> None:
    hangs = hangs_on([("n-1", "invented", "")] * 2, used={"n-1", "n-2", ""})
    assert (hangs.nodes, hangs.avoided) == ((HungNode("n-1", 2),), ("n-1",))


def test_of_the_nodes_of_a_gang_one_is_left() -> None:
    hangs = hangs_on([("n-0",), ("n-1",), ("n-2",), ("n-3",)] * 2, used={"n-0", "n-1", "n-2", "n-3"})
    assert hangs.avoided == ("n-0", "n-1", "n-2")
    again = replace(VERDICT, epoch=9, culprits=(Culprit(task="worker-1", node="n-3"),))
    assert known(counted(hangs, again, 0, START, {"n-3", "n-4"})).avoided == ("n-0", "n-1", "n-2", "n-3")


@pytest.mark.parametrize(
    ("notes", "limit"),
    [
        ({"progress": "file", "hang": "restart"}, 3),
        ({"progress": "file", "hang": "restart", "hang-limit": "0"}, 0),
        ({"progress": "file", "hang": "restart", "hang-limit": "-1"}, 3),
        ({"progress": "file", "hang": "restart", "hang-limit": "2147483647"}, 2147483647),
        ({"progress": "file"}, None),
        ({"hang": "restart"}, None),
    ],
)
def test_only_hangs_that_restart_have_a_limit(notes: dict[str, str], limit: int | None) -> None:
    assert hang_limit({f"barrier.{names.GROUP}/{name}": value for name, value in notes.items()}) == limit


PORTS = {" 1024 ": 1024, "65535": 65535}
NO_PORTS = ("1023", "65536", "99999", "024817", "-1", "http")


@pytest.mark.parametrize(("text", "port"), [*PORTS.items(), *((text, 24817) for text in NO_PORTS)])
def test_a_port_that_there_cannot_be_is_never_asked(text: str, port: int) -> None:
    assert progress_port({names.PROGRESS_PORT_ANNOTATION: text}) == port


@pytest.mark.parametrize(
    ("name", "hangs"),
    [
        ("a gang hangs, and all start again in their Pods", 1),
        ("two sidecars have found the same hang", 1),
        ("a hang is seen and told, and does nothing", 1),
        ("it hangs again at the same step", 2),
    ],
)
def test_each_hang_is_one_event_and_is_counted_once(name: str, hangs: int) -> None:
    life = run(HANGS[name])
    assert (len(life.said("GangHung")), len(life.hangs)) == (hangs, hangs)


def test_the_status_and_an_event_say_what_hung_and_the_ledger_for_how_long() -> None:
    life = run(HANGS["a gang hangs, and all start again in their Pods"])
    status, (message,) = life.world.status, life.said("GangHung")
    assert status.hangs
    assert status.ledger
    text = (
        "the gang made no progress for 130 s after step 10 (limit 120 s); "
        "culprit: worker-2 on node-1 at /a.py:3 in read (is behind the others)"
    )
    assert status.hangs.last.text == text
    (restart,) = status.attempt_status.last_gang_restarts or ()
    assert (restart.reason, restart.why) == ("Hung", text[:200])
    assert text in message
    assert status.ledger.total.hung > 0
