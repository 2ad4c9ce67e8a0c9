"""Which Frameworks are held for the archive, and how long the deletion of a Pod that has ended waits for it."""

import json
from typing import Any

import msgspec
import pytest

from frameworkcontroller.api import names
from frameworkcontroller.api.framework import FRAMEWORK_DECODER, Framework
from frameworkcontroller.api.states import State
from frameworkcontroller.core.machines.record import is_change_due, logs_awaited_until
from tests.controller.core.values import POD_UID, at, pod, task, terminated
from tests.support.rows import each

OURS = names.HISTORY_FINALIZER
DAY = 24 * 3600
ENDED = {"containerStatuses": [terminated("main", 1)]}
RUNS = {"containerStatuses": [{"name": "main", "state": {"running": {}}}]}


def seen(*finalizers: str, deleted: float | None = None, **more: Any) -> Framework:
    meta: dict[str, Any] = {"name": "fw", "uid": "u", "resourceVersion": "1", "finalizers": finalizers} | more
    if deleted is not None:
        meta["deletionTimestamp"] = at(deleted)
    return FRAMEWORK_DECODER.decode(msgspec.json.encode({"metadata": meta, "spec": {}}))


@each(
    "found, history, due",
    [
        (seen(), True, True),
        (seen(), False, False),
        (seen(deleted=0), True, False),
        (seen(OURS), True, False),
        (seen(OURS), False, True),
        (seen(OURS, deleted=DAY), False, True),
        (seen(OURS, deleted=1), True, False),
        (seen(OURS, deleted=0), True, True),
        # A name that only holds it, and somebody who speaks of it.
        (seen(f"{OURS}er"), True, True),
        (seen("a/b", annotations={"a": f'"{OURS}"'}), False, False),
    ],
)
def test_when_the_finalizer_is_set_or_removed(found: Framework, history: bool, due: bool) -> None:
    """The time is a day after the start."""
    assert is_change_due(found, at(DAY), history=history) is due


@each("before, after", [((), (OURS,)), (("a/b", "c"), ("a/b", "c", OURS)), (("a/b", OURS, "c"), ("a/b", "c"))])
def test_other_finalizers_stay_in_their_order(before: tuple[str, ...], after: tuple[str, ...]) -> None:
    assert json.loads(seen(*before).changed_finalizers) == [*after]


@pytest.mark.parametrize("now", [0, 29, 30, -29, -30], ids=str)
@each(
    "phase, status, deleted, kept, waits",
    [
        ("Failed", ENDED, None, (), True),
        ("Failed", ENDED, None, ("other",), True),
        ("Failed", ENDED, None, (POD_UID,), False),
        ("Failed", ENDED, None, None, False),
        ("Failed", ENDED, 0, (), False),
        ("Failed", {}, None, (), False),  # its node is lost, or it never was on one
        ("Running", RUNS, None, (), False),
    ],
)
def test_how_long_a_pod_waits(
    phase: str, status: dict[str, Any], deleted: float | None, kept: tuple[str, ...] | None, waits: bool, now: float
) -> None:
    """Since its Task came into this state at 100 s; a clock that is set back does not make it wait for hours."""
    one, its = task(State.DELETION_PENDING, since=100), pod(phase, deleted=deleted, **status)
    until = at(130) if waits and abs(now) < 30 else None
    assert logs_awaited_until(one, its, kept, at(100 + now)) == until
