"""Twenty hangs and twenty that are none, of gangs of three to eight ranks (docs/reference/progress.md)."""

import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from typing import TypeVar

import pytest

from testkit.frameworks import Frameworks
from testkit.waiting import eventually
from tests.e2e.gangs.test_hang import BAD, HANGS, NO_HANGS, Cut, begins, has_saved, training

pytestmark = [pytest.mark.node, pytest.mark.long, pytest.mark.usefixtures("training_image")]
TIMES, RANKS = 5, (3, 4, 5, 6, 8)
AT_A_TIME = 3
T = TypeVar("T")


def lived(frameworks: Frameworks, lives: Iterable[tuple[str, int]], see: Callable[[str, str], T]) -> dict[str, T]:
    """Let gangs of these kinds and sizes live, some at a time, and return what was seen of each by name and kind."""

    def live(one: tuple[str, int]) -> tuple[str, T]:
        kind, ranks = one
        name = f"{kind}{ranks}"
        frameworks.create(name, training(kind, ranks, restart="in-place"))
        found = see(name, kind)
        frameworks.raw.delete(f"{frameworks.path}/{name}")
        return name, found

    with ThreadPoolExecutor(AT_A_TIME) as pool:
        return dict(pool.map(live, lives))


def test_twenty_hangs_are_found_and_all_train_on(frameworks: Frameworks) -> None:
    def hangs_and_goes_on(name: str, kind: str) -> tuple[float, str]:
        """Let one hang; return for how long it was silent beyond its limit, and the culprits."""
        if kind == "network":
            eventually(lambda: has_saved(f"{name}-worker-0"), 240, interval=0.5)
            time.sleep(8)  # in the middle of its steps
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

    found = lived(frameworks, product(HANGS, RANKS), hangs_and_goes_on)
    for name, (late, who) in found.items():
        print(f"{name}: found {late:+.0f} s beyond its limit, {who or 'not known'}")
    assert len(found) == len(HANGS) * TIMES
    assert all(late <= 10 for late, _ in found.values())
    culprits = [who for _, who in found.values()]
    assert set(culprits) <= {"", f"worker-{BAD}"}
    assert culprits.count(f"worker-{BAD}") >= 16


def test_twenty_that_only_take_long_are_left_alone(frameworks: Frameworks) -> None:
    def ends(name: str, _kind: str) -> tuple[object, int, int]:
        status = frameworks.wait(name, "Completed", 300)
        attempt = status["attemptStatus"]
        return status.get("hangs"), attempt["gangEpoch"], attempt["completionStatus"]["code"]

    found = lived(frameworks, product(NO_HANGS, RANKS[:4]), ends)
    assert found == dict.fromkeys(found, (None, 0, 0))
