"""Which effects are in flight, and how long failed ones are delayed."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from frameworkcontroller.core.effects import (
    ACCESS,
    CONFIG_MAP,
    FRAMEWORK,
    CreateConfigMap,
    CreatePod,
    DeleteConfigMap,
    DeleteFramework,
    DeletePod,
    Done,
    Dropped,
    Effect,
    Failed,
    GrantRosterAccess,
    Missing,
    Outcome,
    Refused,
    WriteRoster,
)
from frameworkcontroller.core.reconcile.in_flight import InFlight
from frameworkcontroller.core.reconcile.outcomes import NAME_IN_USE, failure_of
from tests.controller.core.values import at

if TYPE_CHECKING:
    from frameworkcontroller.core.pods.template import PodSource

KEY = ("pod", "worker", 0)
CREATE = CreatePod("worker", 0, "task-uid", 0, cast("PodSource", SimpleNamespace(size=0)))
DELETE = DeletePod("worker", 0, "pod-uid")


def new_in_flight(draw: float = 1.0) -> InFlight:
    return InFlight(lambda: draw)


def test_one_effect_at_a_time_per_key_is_busy_until_its_answer() -> None:
    in_flight = new_in_flight()
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


def test_it_knows_whether_pods_are_being_created() -> None:
    in_flight = new_in_flight()
    seen = []
    for started in (DELETE, None, CREATE, CREATE, None, None, CREATE):
        if started is None:
            in_flight.finish(KEY)
        else:
            in_flight.start(started)
        seen.append(in_flight.creates_pods)
    assert seen == [False, False, True, True, False, False, True]


def test_each_failure_in_a_row_waits_twice_as_long_up_to_30_seconds() -> None:
    in_flight = new_in_flight()
    waits = []
    for _ in range(8):
        in_flight.back_off(KEY, Failed("x"), at(0))
        until = in_flight.delayed_until(KEY, at(0))
        assert until is not None
        waits.append((until - at(0)).total_seconds())
    assert waits == [1, 2, 4, 8, 16, 30, 30, 30]


@pytest.mark.parametrize(("draw", "seconds"), [(0.0, 0.5), (0.5, 0.75), (1.0, 1.0)])
def test_a_wait_is_drawn_between_half_and_all_of_it_and_ends(draw: float, seconds: float) -> None:
    in_flight = new_in_flight(draw)
    in_flight.back_off(KEY, Failed("x"), at(0))
    assert in_flight.delayed_until(KEY, at(seconds - 0.001)) == at(seconds)
    assert in_flight.delayed_until(KEY, at(seconds)) is None


def test_the_server_may_ask_for_a_longer_delay_never_for_a_shorter_one() -> None:
    in_flight = new_in_flight()
    in_flight.back_off(KEY, Failed("x", retry_after_seconds=60), at(0))
    assert in_flight.delayed_until(KEY, at(0)) == at(60)
    in_flight.back_off(KEY, Failed("x", retry_after_seconds=0.1), at(0))
    assert in_flight.delayed_until(KEY, at(0)) == at(2)


def test_a_success_resets_one_delay_a_new_attempt_all() -> None:
    in_flight = new_in_flight()
    for key in (KEY, CONFIG_MAP):
        in_flight.back_off(key, Failed("x"), at(0))
        in_flight.back_off(key, Failed(f"last of {key}"), at(0))
    in_flight.reset_delay(KEY)
    assert in_flight.delayed_until(KEY, at(0)) is None
    assert [in_flight.last_failure(key) for key in (KEY, CONFIG_MAP)] == ["", f"last of {CONFIG_MAP}"]
    assert in_flight.delayed_until(CONFIG_MAP, at(0)) == at(2)
    in_flight.back_off(KEY, Failed("x"), at(0))
    assert in_flight.delayed_until(KEY, at(0)) == at(1)
    in_flight.reset_delays()
    assert [in_flight.last_failure(key) for key in (KEY, CONFIG_MAP)] == ["", ""]
    assert in_flight.delayed_until(CONFIG_MAP, at(0)) is None


def test_what_took_place_unseen_is_repeated_after_5_seconds_and_is_no_failure() -> None:
    in_flight = new_in_flight()
    in_flight.recheck_later(KEY, at(0))
    assert in_flight.delayed_until(KEY, at(0)) == at(0) + timedelta(seconds=5)
    assert in_flight.last_failure(KEY) == ""
    assert in_flight.failures(KEY) == 0


def test_a_pod_that_stays_is_deleted_again_after_longer_and_longer_times() -> None:
    """With a finalizer 1,000 of them made 200 requests a second for ever."""
    in_flight, now, times = new_in_flight(), at(0), []
    for _ in range(9):
        in_flight.recheck_later(KEY, now, longer=True)
        until = in_flight.delayed_until(KEY, now)
        assert until is not None
        times.append((until - now).total_seconds())
        now = until
    assert times == [5, 5, 5, 10, 20, 40, 80, 160, 300]
    in_flight.reset_delay(KEY)
    in_flight.recheck_later(KEY, now, longer=True)
    assert in_flight.delayed_until(KEY, now) == now + timedelta(seconds=5)


def test_a_pod_that_had_the_name_of_a_new_one_is_looked_at_5_seconds_after_its_deletion() -> None:
    """The retry of a Framework whose Pods had stayed took half a minute, though these were gone at once."""
    in_flight = new_in_flight()
    in_flight.back_off(KEY, Failed(NAME_IN_USE), at(0))
    in_flight.look_later(KEY, 1, NAME_IN_USE, at(1))
    in_flight.recheck_later(KEY, at(2), longer=True)
    assert in_flight.delayed_until(KEY, at(2)) == at(7)


FAILED = Failed("sick", retry_after_seconds=3)
REFUSED = Refused(403, "forbidden")
ROSTER = WriteRoster("uid", 0, b"{}", "{}", complete=True)
VERDICTS: dict[str, tuple[Effect, Outcome, Failed | None]] = {
    "a failure, whatever of": (ROSTER, FAILED, FAILED),
    "a Pod's refusal is an answer": (CREATE, REFUSED, None),
    "a refused ConfigMap is tried again": (CreateConfigMap(0, b""), REFUSED, Failed("forbidden")),
    "a refused grant is tried again": (GrantRosterAccess((), "uid"), REFUSED, Failed("forbidden")),
    "no namespace for a Pod": (CREATE, Missing(), Failed("the namespace does not exist")),
    "no namespace for a ConfigMap": (CreateConfigMap(0, b""), Missing(), Failed("the namespace does not exist")),
    "a Pod that is gone is gone": (DELETE, Missing(), None),
    "a ConfigMap that is gone is gone": (DeleteConfigMap("uid"), Missing(), None),
    "a Framework that is gone is gone": (DeleteFramework(), Missing(), None),
    "what was done": (CREATE, Done(uid="x"), None),
    "what was not wanted any more": (CREATE, Dropped(), None),
}


@pytest.mark.parametrize(("effect", "outcome", "failure"), VERDICTS.values(), ids=VERDICTS)
def test_which_outcomes_are_failures_to_back_off_for(effect: Effect, outcome: Outcome, failure: Failed | None) -> None:
    assert failure_of(effect, outcome) == failure


def test_every_effect_has_a_key_of_its_own() -> None:
    effects: list[Any] = [CREATE, DELETE, CreateConfigMap(0, b""), DeleteConfigMap("u"), DeleteFramework(), ROSTER]
    assert [effect.key for effect in effects] == [KEY, KEY, CONFIG_MAP, CONFIG_MAP, FRAMEWORK, ("roster",)]
    assert GrantRosterAccess((), "uid").key == ACCESS


def test_of_large_pods_few_are_created_at_a_time() -> None:
    in_flight, large = InFlight(lambda: 0.5), cast("PodSource", SimpleNamespace(size=1_500_000))
    begun = 0
    while in_flight.free_creations(at(0)):
        in_flight.start(CreatePod("worker", begun, "task-uid", 0, large))
        begun += 1
    assert begun == 3
    in_flight.finish(("pod", "worker", 0))
    assert in_flight.free_creations(at(0)) > 0
