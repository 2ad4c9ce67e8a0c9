"""What each answer to a write of the status means."""

from __future__ import annotations

import gzip
from base64 import b64encode

import msgspec
import pytest
from msgspec.structs import replace

from frameworkcontroller.api.states import State
from frameworkcontroller.api.status import FrameworkStatus, TaskRoleStatus
from frameworkcontroller.core.effects import Done, Failed, Missing, Refused, RolesSummary, StaleStatus, WriteStatus
from frameworkcontroller.core.status.verdict import (
    Accepted,
    Answer,
    Conflicting,
    Found,
    NotFound,
    ReadFirst,
    Rejected,
    SendUpon,
    Unavailable,
    Verdict,
    verdict,
)
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
SUMMARY = RolesSummary(ROLES, ("worker",), 0, 1, by_arrival=False, member_revision=1)
WRITE = WriteStatus(WRITTEN, SUMMARY, 7, "41", BEFORE)
LOST = WriteStatus(WRITTEN, SUMMARY, 7, "41", BEFORE, unanswered=OTHER)
FIRST = WriteStatus(WRITTEN, SUMMARY, 7, "41", None)

TABLE: dict[str, tuple[WriteStatus, Answer, Verdict]] = {
    "accepted": (WRITE, Accepted("42"), Done(resource_version="42")),
    "conflict": (WRITE, Conflicting(), ReadFirst()),
    "no Framework": (WRITE, NotFound(), Missing()),
    "rejected": (WRITE, Rejected(422, "too large"), Refused(422, "too large")),
    "no answer": (WRITE, Unavailable("reset"), Failed("reset")),
    "overloaded": (WRITE, Unavailable("busy", 3.0), Failed("busy", 3.0)),
    "found another instance": (WRITE, Found("another", "43", BEFORE), Missing()),
    "found our own write": (WRITE, Found(UID, "43", WRITTEN), Done(resource_version="43")),
    "found our own write, compressed": (
        WRITE,
        Found(UID, "43", status(State.RUNNING, compressed=True)),
        Done(resource_version="43"),
    ),
    "found what we wrote upon": (WRITE, Found(UID, "43", BEFORE), SendUpon("43")),
    "found what we wrote upon, compressed": (
        WRITE,
        Found(UID, "43", status(State.PREPARING, compressed=True)),
        SendUpon("43"),
    ),
    "found an earlier write whose answer was lost": (LOST, Found(UID, "43", OTHER), SendUpon("43")),
    "found neither that nor what we wrote upon": (LOST, Found(UID, "43", status(State.COMPLETED)), StaleStatus()),
    "found another writer's status": (WRITE, Found(UID, "43", OTHER), StaleStatus()),
    "found no status where there was one": (WRITE, Found(UID, "43", None), StaleStatus()),
    "found no status before the first write": (FIRST, Found(UID, "43", None), SendUpon("43")),
    "found a status before the first write": (FIRST, Found(UID, "43", BEFORE), StaleStatus()),
}


@pytest.mark.parametrize(("effect", "answer", "expected"), TABLE.values(), ids=TABLE)
def test_an_answer_means(effect: WriteStatus, answer: Answer, expected: Verdict) -> None:
    assert verdict(effect, UID, answer) == expected
