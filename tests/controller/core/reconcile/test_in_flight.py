"""Which effects are in flight, and how long failed ones are delayed."""

from datetime import datetime, timedelta

import pytest

from frameworkcontroller.core.effects import CONFIG_MAP, DeletePod, Failed
from frameworkcontroller.core.events import NAME_IN_USE
from frameworkcontroller.core.policies.shares import (
    NAMES_A_SECOND,
    NAMES_AT_ONCE,
    RETRIES_A_SECOND,
    RETRIES_AT_ONCE,
    Shares,
)
from frameworkcontroller.core.reconcile.in_flight import InFlight
from tests.controller.core.values import START, at, creation, known

KEY = ("pod", "worker", 0)
CREATE, DELETE = creation(), DeletePod("worker", 0, "pod-uid")
FAILED = Failed("sick")


@pytest.fixture
def in_flight() -> InFlight:
    return InFlight(lambda: 1.0)


def wait(one: InFlight, now: datetime = START) -> float:
    """For how many seconds the next try is delayed, or all creations are."""
    return (known(one.delayed_until(KEY, now) or one.slow_start.closed_until(now)) - now).total_seconds()


def test_one_effect_at_a_time_per_key_is_busy_until_its_answer(in_flight: InFlight) -> None:
    assert not in_flight.is_busy(KEY)
    assert in_flight.start(CREATE)
    assert not in_flight.start(DELETE)
    assert in_flight.start(DeletePod("worker", 1, "pod-uid"))
    assert in_flight.is_busy(KEY)
    assert in_flight.any_of("pod", "configmap")
    assert not in_flight.any_of("configmap", "roster")
    in_flight.finish(KEY)
    assert not in_flight.is_busy(KEY)
    assert in_flight.start(DELETE)


def test_it_knows_whether_pods_are_being_created(in_flight: InFlight) -> None:
    seen = []
    for started in (DELETE, None, CREATE, CREATE, None, None, CREATE):
        if started is None:
            in_flight.finish(KEY)
        else:
            in_flight.start(started)
        seen.append(in_flight.creates_pods)
    assert seen == [False, False, True, True, False, False, True]


DELAYS: dict[str, tuple[float, Failed | bool, list[float]]] = {
    "failures": (1.0, FAILED, [1, 2, 4, 8, 16, 30, 30, 30]),
    "failures, by half a draw": (0.5, FAILED, [0.75, 1.5, 3]),
    "failures, by the least draw": (0.0, FAILED, [0.5, 1, 2]),
    "the server asks for more": (1.0, Failed("x", 60), [60, 60]),
    "the server asks for less": (1.0, Failed("x", 0.1), [1, 2]),
    "what took place unseen": (1.0, False, [5, 5, 5, 5]),
    # With a finalizer 1,000 of them made 200 requests a second for ever.
    "a Pod stays": (1.0, True, [5, 5, 5, 10, 20, 40, 80, 160, 300, 300]),
}


@pytest.mark.parametrize(("draw", "failed", "delays"), DELAYS.values(), ids=DELAYS)
def test_the_next_try_is_delayed_after(draw: float, failed: Failed | bool, delays: list[float]) -> None:
    """What it failed with, or no failure: whether the Pod is looked at after longer and longer times."""
    in_flight, now, found = InFlight(lambda: draw), at(0), []
    for _ in delays:
        if isinstance(failed, Failed):
            in_flight.back_off(KEY, failed, now)
        else:
            in_flight.recheck_later(KEY, now, longer=failed)
        found.append(wait(in_flight, now))
        now += timedelta(seconds=found[-1])
        assert in_flight.delayed_until(KEY, now) is None
    assert found == delays
    message = failed.message if isinstance(failed, Failed) else ""
    assert (in_flight.last_failure(KEY), in_flight.failures(KEY)) == (message, len(delays) if failed else 0)


def test_a_success_resets_one_delay_a_new_attempt_all(in_flight: InFlight) -> None:
    def delays() -> list[tuple[float, str]]:
        delayed = [
            (in_flight.delayed_until(key, at(0)) or at(0), in_flight.last_failure(key)) for key in (KEY, CONFIG_MAP)
        ]
        return [((until - at(0)).total_seconds(), message) for until, message in delayed]

    for key in (KEY, CONFIG_MAP):
        in_flight.back_off(key, Failed("x"), at(0))
        in_flight.back_off(key, Failed(f"last of {key[0]}"), at(0))
    assert delays() == [(2, "last of pod"), (2, "last of configmap")]
    in_flight.reset_delay(KEY)
    assert delays() == [(0, ""), (2, "last of configmap")]
    in_flight.back_off(KEY, Failed("x"), at(0))
    assert delays() == [(1, "x"), (2, "last of configmap")]
    in_flight.reset_delays()
    assert delays() == [(0, ""), (0, "")]


def test_a_pod_that_had_the_name_of_a_new_one_is_looked_at_5_seconds_after_its_deletion(in_flight: InFlight) -> None:
    """The retry of a Framework whose Pods had stayed took half a minute, though these were gone at once."""
    in_flight.back_off(KEY, Failed(NAME_IN_USE), at(0))
    in_flight.look_later(KEY, NAME_IN_USE, at(1))
    in_flight.recheck_later(KEY, at(2), longer=True)
    assert in_flight.delayed_until(KEY, at(2)) == at(7)


def test_what_is_refused_takes_turns_with_others_of_its_namespace_but_waits_five_minutes_at_most() -> None:
    """3,400 Frameworks beyond a quota sent 410 creations a second, after 37 s."""
    shares, waits = Shares(), list[float]()
    for number in range(4000):
        one = InFlight(lambda: 0.0, shares)
        if number % 2:
            one.back_off(KEY, Failed("forbidden", refused=True), at(0))
        else:
            one.fail_creation(Failed("exceeded quota", refused=True), at(0))
        waits.append(wait(one))
    assert waits[RETRIES_AT_ONCE - 1] < 1
    assert waits[RETRIES_AT_ONCE + 600] == pytest.approx(601 / RETRIES_A_SECOND, abs=0.01)
    assert waits[-1] == 300
    later, failed = (InFlight(lambda: 0.0, shares) for _ in range(2))
    later.back_off(KEY, Failed("forbidden", refused=True), at(301))
    assert later.delayed_until(KEY, at(302)) is None, "none of the others has come back"
    failed.back_off(KEY, Failed("500"), at(0))
    assert failed.delayed_until(KEY, at(1)) is None


def test_names_in_use_are_looked_at_in_turns_of_the_namespace() -> None:
    """Two hundred Frameworks whose Pods' names others have made 370 looks a second."""
    shares, waits = Shares(), list[float]()
    for _ in range(NAMES_AT_ONCE + 5 * NAMES_A_SECOND):
        one = InFlight(lambda: 0.0, shares)
        one.look_later(KEY, NAME_IN_USE, at(0))
        waits.append(wait(one))
    assert (waits[0], waits[-1]) == (0.5, pytest.approx(5, abs=0.1))


def test_of_large_pods_few_are_created_at_a_time(in_flight: InFlight) -> None:
    begun = 0
    while in_flight.free_creations(at(0)):
        in_flight.start(creation(index=begun, size=1_500_000))
        begun += 1
    assert begun == 3
    in_flight.finish(KEY)
    assert in_flight.free_creations(at(0)) > 0
