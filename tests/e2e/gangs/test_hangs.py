"""Twenty hangs and twenty that are none, of gangs of three to eight ranks (docs/reference/progress.md)."""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from testkit.frameworks import Frameworks
from testkit.waiting import eventually
from tests.e2e.gangs.test_hang import BAD, HANGS, NO_HANGS, Cut, begins, training

pytestmark = [pytest.mark.node, pytest.mark.long, pytest.mark.usefixtures("training_image")]
TIMES, RANKS = 5, (3, 4, 5, 6, 8)
AT_A_TIME = 3


def hangs_and_goes_on(frameworks: Frameworks, name: str, kind: str, ranks: int) -> tuple[float, str]:
    """Let one hang; return for how long it was silent beyond its limit, and the culprits."""
    if kind == "network":
        eventually(lambda: runs(frameworks, name), timeout=120)
        time.sleep(22)  # in the middle of its steps
        cut = Cut(f"{name}-worker-{BAD}")
        cut.drop()
    eventually(lambda: frameworks.status(name)["hangs"], timeout=240)
    if kind == "network":
        cut.restore()
    status = frameworks.wait(name, "Completed", 300)
    assert status["attemptStatus"]["completionStatus"]["code"] == 0, status
    assert [one["reason"] for one in status["attemptStatus"]["lastGangRestarts"]] == ["Hung"], status
    assert len(set(begins(frameworks, name))) == 1
    assert int(begins(frameworks, name)[0]) > 0
    last = status["hangs"]["last"]
    return last["silent"] - last["limit"], ",".join(one["task"] for one in last.get("culprits", ()))


def runs(frameworks: Frameworks, name: str) -> None:
    assert frameworks.status(name)["ledger"]["state"] == "running"


def test_twenty_hangs_are_found_and_all_train_on(frameworks: Frameworks) -> None:
    lives = [(f"{kind}{ranks}", kind, ranks) for kind in HANGS for ranks in RANKS]

    def run(one: tuple[str, str, int]) -> tuple[float, str]:
        name, kind, ranks = one
        frameworks.create(name, training(kind, ranks, restart="in-place"))
        found = hangs_and_goes_on(frameworks, name, kind, ranks)
        frameworks.raw.delete(f"{frameworks.path}/{name}")
        return found

    with ThreadPoolExecutor(AT_A_TIME) as pool:
        found = dict(zip(lives, pool.map(run, lives), strict=True))
    for (name, _, _), (late, who) in found.items():
        print(f"{name}: found {late:+.0f} s beyond its limit, {who or 'not known'}")
    assert len(found) == len(HANGS) * TIMES
    assert all(late <= 10 for late, _ in found.values())
    culprits = [who for _, who in found.values()]
    assert set(culprits) <= {"", f"worker-{BAD}"}
    assert culprits.count(f"worker-{BAD}") >= 16


def test_twenty_that_only_take_long_are_left_alone(frameworks: Frameworks) -> None:
    lives = [(f"{kind}{ranks}", kind, ranks) for kind in NO_HANGS for ranks in RANKS[:4]]

    def run(one: tuple[str, str, int]) -> Any:
        name, kind, ranks = one
        frameworks.create(name, training(kind, ranks, restart="in-place"))
        status = frameworks.wait(name, "Completed", 300)
        frameworks.raw.delete(f"{frameworks.path}/{name}")
        attempt = status["attemptStatus"]
        return status.get("hangs"), attempt["gangEpoch"], attempt["completionStatus"]["code"]

    with ThreadPoolExecutor(AT_A_TIME) as pool:
        found = dict(zip(lives, pool.map(run, lives), strict=True))
    assert set(found.values()) == {(None, 0, 0)}
