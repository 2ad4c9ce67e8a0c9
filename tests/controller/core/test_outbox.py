"""What is under way, and how patient one is."""

from __future__ import annotations

from datetime import timedelta
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
from frameworkcontroller.core.outbox import Outbox
from frameworkcontroller.core.settle import failure_of

from .values import at

if TYPE_CHECKING:
    from frameworkcontroller.core.template import PodTemplate

KEY = ("pod", "worker", 0)
CREATE = CreatePod("worker", 0, "task-uid", 0, cast("PodTemplate", None))
DELETE = DeletePod("worker", 0, "pod-uid")


def outbox(draw: float = 1.0) -> Outbox:
    return Outbox(lambda: draw)


def test_one_effect_at_a_time_per_key() -> None:
    box = outbox()
    assert box.send(CREATE)
    assert not box.send(DELETE)
    assert box.send(DeletePod("worker", 1, "pod-uid"))
    assert box.is_busy(KEY)
    box.answered(KEY)
    assert not box.is_busy(KEY)
    assert box.send(DELETE)


def test_it_is_idle_when_everything_is_answered() -> None:
    box = outbox()
    idle = [box.idle]
    box.send(CREATE)
    idle.append(box.idle)
    box.answered(KEY)
    idle.append(box.idle)
    box.answered(KEY)
    idle.append(box.idle)
    assert idle == [True, False, True, True]


def test_it_knows_what_kinds_are_under_way() -> None:
    box = outbox()
    box.send(DELETE)
    assert box.any_of("pod", "configmap")
    assert not box.any_of("configmap", "roster")


def test_it_knows_whether_pods_are_being_created() -> None:
    box = outbox()
    seen = []
    for step in (
        lambda: box.send(DELETE),
        lambda: box.answered(KEY),
        lambda: box.send(CREATE),
        lambda: box.send(CREATE),
        lambda: box.answered(KEY),
        lambda: box.answered(KEY),
        lambda: box.send(CREATE),
    ):
        step()
        seen.append(box.creates_pods)
    assert seen == [False, False, True, True, False, False, True]


def test_each_failure_in_a_row_waits_twice_as_long_up_to_30_seconds() -> None:
    box = outbox()
    waits = []
    for _ in range(8):
        box.back_off(KEY, Failed("x"), at(0))
        until = box.wait_until(KEY, at(0))
        assert until is not None
        waits.append((until - at(0)).total_seconds())
    assert waits == [1, 2, 4, 8, 16, 30, 30, 30]


@pytest.mark.parametrize(("draw", "seconds"), [(0.0, 0.5), (0.5, 0.75), (1.0, 1.0)])
def test_a_wait_is_drawn_between_half_and_all_of_it(draw: float, seconds: float) -> None:
    box = outbox(draw)
    box.back_off(KEY, Failed("x"), at(0))
    assert box.wait_until(KEY, at(0)) == at(seconds)


def test_the_server_may_ask_for_more_patience_never_for_less() -> None:
    box = outbox()
    box.back_off(KEY, Failed("x", retry_after_seconds=60), at(0))
    assert box.wait_until(KEY, at(0)) == at(60)
    box.back_off(KEY, Failed("x", retry_after_seconds=0.1), at(0))
    assert box.wait_until(KEY, at(0)) == at(2)


def test_the_wait_ends() -> None:
    box = outbox()
    box.back_off(KEY, Failed("x"), at(0))
    assert box.wait_until(KEY, at(0.999)) == at(1)
    assert box.wait_until(KEY, at(1)) is None


def test_a_success_forgives_one_key_a_new_attempt_all() -> None:
    box = outbox()
    for key in (KEY, CONFIG_MAP):
        box.back_off(key, Failed("x"), at(0))
        box.back_off(key, Failed("x"), at(0))
    box.forgive(KEY)
    assert box.wait_until(KEY, at(0)) is None
    assert box.wait_until(CONFIG_MAP, at(0)) == at(2)
    box.back_off(KEY, Failed("x"), at(0))
    assert box.wait_until(KEY, at(0)) == at(1)
    box.forgive_all()
    assert box.troubles == {}
    assert box.wait_until(CONFIG_MAP, at(0)) is None


def test_what_was_answered_but_did_not_show_is_repeated_after_5_seconds_and_is_no_trouble() -> None:
    box = outbox()
    box.ask_again_later(KEY, at(0))
    assert box.wait_until(KEY, at(0)) == at(0) + timedelta(seconds=5)
    assert box.troubles == {}


def test_troubles_are_told_by_key() -> None:
    box = outbox()
    box.back_off(KEY, Failed("exceeded quota"), at(0))
    assert box.trouble(KEY) == "exceeded quota"
    assert box.trouble(CONFIG_MAP) == ""
    assert box.troubles == {KEY: "exceeded quota"}


FAILED = Failed("sick", retry_after_seconds=3)
REFUSED = Refused(403, "forbidden")
ROSTER = WriteRoster("uid", b"{}", "{}", complete=True)
VERDICTS: dict[str, tuple[Effect, Outcome, Failed | None]] = {
    "a failure, whatever of": (ROSTER, FAILED, FAILED),
    "a Pod's refusal is an answer": (CREATE, REFUSED, None),
    "a refused ConfigMap is tried again": (CreateConfigMap(0, b""), REFUSED, Failed("forbidden")),
    "a refused grant is tried again": (GrantRosterAccess(()), REFUSED, Failed("forbidden")),
    "no namespace for a Pod": (CREATE, Missing(), Failed("the namespace is not there")),
    "no namespace for a ConfigMap": (CreateConfigMap(0, b""), Missing(), Failed("the namespace is not there")),
    "a Pod that is gone is gone": (DELETE, Missing(), None),
    "a ConfigMap that is gone is gone": (DeleteConfigMap("uid"), Missing(), None),
    "a Framework that is gone is gone": (DeleteFramework(), Missing(), None),
    "what was done": (CREATE, Done(uid="x"), None),
    "what was not wanted any more": (CREATE, Dropped(), None),
}


@pytest.mark.parametrize(("effect", "outcome", "failure"), VERDICTS.values(), ids=VERDICTS)
def test_what_calls_for_patience(effect: Effect, outcome: Outcome, failure: Failed | None) -> None:
    assert failure_of(effect, outcome) == failure


def test_every_effect_has_a_key_of_its_own() -> None:
    effects: list[Any] = [CREATE, DELETE, CreateConfigMap(0, b""), DeleteConfigMap("u"), DeleteFramework(), ROSTER]
    assert [effect.key for effect in effects] == [KEY, KEY, CONFIG_MAP, CONFIG_MAP, FRAMEWORK, ("roster",)]
    assert GrantRosterAccess(()).key == ACCESS
