"""Applications that end together: who wants to, and when they may (docs/reference/barrier.md, section 9)."""

from typing import Any

import pytest
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from frameworkcontroller.api import names
from frameworkcontroller.api.pod import InitContainerStatus
from frameworkcontroller.api.states import State
from frameworkcontroller.api.status import TaskStatus
from frameworkcontroller.core.pods.facts import SpecFacts
from frameworkcontroller.core.policies.readiness import held_of
from frameworkcontroller.core.restart import epoch
from frameworkcontroller.core.status.state import FrameworkState
from frameworkcontroller.core.status.summary import may_end
from tests.controller.core.values import ended, pod, role_of, task
from tests.support.rows import each

RUNS: dict[str, Any] = {"running": {}}
SIDECARS: dict[str, tuple[dict[str, Any], bool | UnsetType, bool | UnsetType]] = {
    "the gate is closed": ({"state": RUNS, "started": False}, UNSET, UNSET),
    "its probe was not asked yet": ({"state": RUNS, "started": True, "ready": False}, UNSET, UNSET),
    "it is ready": ({"state": RUNS, "started": True, "ready": True}, UNSET, False),
    "its application wants to end": ({"state": RUNS, "started": True, "ready": False}, False, True),
    "it still does": ({"state": RUNS, "started": True, "ready": False}, True, True),
    "it does not any more": ({"state": RUNS, "started": True, "ready": True}, True, False),
    "its Pod ends": ({"state": {"terminated": {"exitCode": 0}}, "started": False, "ready": False}, True, True),
    "it starts again": ({"state": {"waiting": {}}, "started": False, "ready": False}, False, False),
}


@each("status, before, after", SIDECARS.values(), ids=SIDECARS)
def test_a_sidecar_that_was_ready_and_is_not_says_that_its_application_wants_to_end(
    status: dict[str, Any], before: bool | UnsetType, after: bool | UnsetType
) -> None:
    attempt = replace(task(State.RUNNING).attempt_status, held=before)
    seen = pod("Running", initContainerStatuses=[{"name": names.BARRIER_CONTAINER, **status}])
    assert held_of(attempt, seen) is after


def test_an_instance_that_starts_again_does_not_want_to_end() -> None:
    attempt = replace(task(State.RUNNING).attempt_status, starts=1, epoch=0, held=True)
    template = pod("Running", sidecars=(names.BARRIER_CONTAINER,))
    for count, held in ((0, True), (1, UNSET)):
        barrier = InitContainerStatus(names.BARRIER_CONTAINER, restart_count=count)
        seen = replace(template, status=replace(template.status, init_container_statuses=(barrier,)))
        assert epoch.observe(attempt, seen, epoch.Gate(0, 3)).held is held


def one(held: bool | UnsetType = UNSET, state: State = State.RUNNING, code: int | None = None) -> TaskStatus:
    found = task(state, None if code is None else ended(code))
    return replace(found, attempt_status=replace(found.attempt_status, held=held))


HELD, RUNNING, NEW = one(held=True), one(held=False), one(state=State.CREATION_PENDING)
DONE, ENDS = one(state=State.COMPLETED, code=0), one(held=True, state=State.DELETING, code=0)
FAILED, RETRIED = one(state=State.COMPLETED, code=1), one(state=State.ATTEMPT_COMPLETED, code=1)
GANGS = {
    "nobody wants to": ([RUNNING, RUNNING], False),
    "one does not": ([HELD, RUNNING], False),
    "one has not begun": ([HELD, NEW], False),
    "one is retried": ([HELD, RETRIED], False),
    "all do": ([HELD, HELD], True),
    "all do, or have": ([HELD, DONE, ENDS], True),
    "one has failed for good": ([HELD, RUNNING, FAILED], True),
    "one that is to go does not count": ([HELD, replace(RUNNING, deletion_pending=True)], True),
    "all have": ([DONE, DONE], False),
}


@each("tasks, found", GANGS.values(), ids=GANGS)
def test_they_may_end_when_all_want_to_or_one_has_failed_for_good(tasks: list[TaskStatus], found: bool) -> None:
    state = FrameworkState("fw")
    state.roles = {"worker": role_of("worker", tasks), "other": role_of("other", [RUNNING])}
    state.facts = SpecFacts(members=frozenset({"worker", "other"}), end_together=frozenset({"worker"}))
    assert may_end(state) is found
    state.facts = SpecFacts(members=frozenset({"worker", "other"}))
    assert not may_end(state)


@pytest.mark.parametrize("other", [RUNNING, HELD])
def test_all_roles_with_the_annotation_end_together(other: TaskStatus) -> None:
    state = FrameworkState("fw")
    state.roles = {"worker": role_of("worker", [HELD]), "ps": role_of("ps", [other])}
    state.facts = SpecFacts(end_together=frozenset({"worker", "ps"}))
    assert may_end(state) is (other is HELD)
    state.roles["ps"].dependencies_met = False
    assert may_end(state), "one that waits for the end of the others"
