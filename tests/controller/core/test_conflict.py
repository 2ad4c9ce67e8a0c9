"""Why a write of the status conflicts, and what follows."""

from __future__ import annotations

import gzip
from base64 import b64encode

import msgspec
import pytest
from msgspec.structs import replace

from frameworkcontroller.api.framework import FRAMEWORK_DECODER, Framework
from frameworkcontroller.api.states import State
from frameworkcontroller.api.status import FrameworkStatus, TaskRoleStatus
from frameworkcontroller.core.effects import Done, Missing, Outcome, RolesSummary, StaleStatus, WriteStatus
from frameworkcontroller.core.status.conflict import SendUpon, resolve_conflict
from tests.controller.core.values import framework, task

UID = "framework-uid"
ROLES = (TaskRoleStatus("worker", "role-uid", task_statuses=(task(State.RUNNING),)),)


def status(state: State, *, compressed: bool = False) -> FrameworkStatus:
    plain = framework(state)
    if compressed:
        packed = b64encode(gzip.compress(msgspec.json.encode(ROLES))).decode()
        attempt = replace(plain.attempt_status, task_role_statuses_compressed=packed)
    else:
        attempt = replace(plain.attempt_status, task_role_statuses=ROLES)
    return replace(plain, attempt_status=attempt)


WRITTEN, BEFORE, OTHER = status(State.RUNNING), status(State.PREPARING), status(State.DELETING)
SUMMARY = RolesSummary(roles=ROLES, order=("worker",), ready=0, total=1, by_arrival=False, member_revision=1)
WRITE = WriteStatus(WRITTEN, SUMMARY, 7, "41", BEFORE)
LOST = WriteStatus(WRITTEN, SUMMARY, 7, "41", BEFORE, unanswered=OTHER)
FIRST = WriteStatus(WRITTEN, SUMMARY, 7, "41", None)


def live(found: FrameworkStatus | None, uid: str = UID) -> Framework:
    document = {"metadata": {"name": "fw", "uid": uid, "resourceVersion": "43"}, "spec": {}, "status": found}
    return FRAMEWORK_DECODER.decode(msgspec.json.encode(document))


TABLE: dict[str, tuple[WriteStatus, Framework, Outcome | SendUpon]] = {
    "another instance": (WRITE, live(BEFORE, "another"), Missing()),
    "our own write": (WRITE, live(WRITTEN), Done(resource_version="43")),
    "our own write, compressed": (WRITE, live(status(State.RUNNING, compressed=True)), Done(resource_version="43")),
    "what we wrote upon": (WRITE, live(BEFORE), SendUpon("43")),
    "what we wrote upon, compressed": (WRITE, live(status(State.PREPARING, compressed=True)), SendUpon("43")),
    "an earlier write whose answer was lost": (LOST, live(OTHER), SendUpon("43")),
    "neither that nor what we wrote upon": (LOST, live(status(State.COMPLETED)), StaleStatus()),
    "another writer's status": (WRITE, live(OTHER), StaleStatus()),
    "no status where there was one": (WRITE, live(None), StaleStatus()),
    "no status before the first write": (FIRST, live(None), SendUpon("43")),
    "a status before the first write": (FIRST, live(BEFORE), StaleStatus()),
}


@pytest.mark.parametrize(("effect", "found", "expected"), TABLE.values(), ids=TABLE)
def test_a_write_conflicts_with(effect: WriteStatus, found: Framework, expected: Outcome | SendUpon) -> None:
    assert resolve_conflict(effect, UID, found) == expected
