"""What an answer means for the Task or the Framework that asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import pytest

from frameworkcontroller.api.states import State
from frameworkcontroller.core.book import Book
from frameworkcontroller.core.effects import (
    CONFIG_MAP,
    CreateConfigMap,
    CreatePod,
    DeleteConfigMap,
    DeletePod,
    Done,
    Dropped,
    Failed,
    Missing,
    Outcome,
    Refused,
)
from frameworkcontroller.core.outbox import Outbox
from frameworkcontroller.core.settle import settle_config_map, settle_pod

from .values import CONFIG_MAP_UID, POD_UID, at, ended, framework, framework_end, role, spec, task

if TYPE_CHECKING:
    from frameworkcontroller.api.types import FrameworkStatus, TaskStatus
    from frameworkcontroller.core.template import PodTemplate

S = State
W0 = ("worker", 0)
CREATE = CreatePod("worker", 0, "task-uid", 0, cast("PodTemplate", None))
DELETE = DeletePod("worker", 0, POD_UID)
FORCE = DeletePod("worker", 0, POD_UID, grace_seconds=0)
CONFIRM = DeletePod("worker", 0, POD_UID, confirm=True)
STRAY = DeletePod("worker", 0, "stray-uid", recorded=False)
UNSEEN = task(S.CREATION_REQUESTED, ended(-111))
TO_DELETE = task(S.DELETION_PENDING, ended(0))


def book_of(current: TaskStatus) -> Book:
    book = Book("fw")
    book.set(framework(S.PREPARING))
    book.rescale(spec(role("worker", 1)), at(0), lambda: "uid")
    book.put(W0, current)
    book.acknowledge(book.revision)
    book.take_dirty(at(0))
    return book


@dataclass(frozen=True)
class Case:
    """A Task, what was asked for, what became of that, and what becomes of the Task."""

    was: TaskStatus
    effect: CreatePod | DeletePod
    outcome: Outcome
    becomes: State
    code: int | None = None
    later: bool = False
    """Whether it is not asked for again for a while."""


CASES = {
    "created": Case(task(), CREATE, Done(uid="new-uid"), S.CREATION_REQUESTED),
    "not created": Case(task(), CREATE, Failed("sick"), S.CREATION_PENDING),
    "not created, no namespace": Case(task(), CREATE, Missing(), S.CREATION_PENDING),
    "not created, not wanted any more": Case(task(), CREATE, Dropped(), S.CREATION_PENDING),
    "refused with 400": Case(task(), CREATE, Refused(400, "bad"), S.ATTEMPT_COMPLETED, -310),
    "refused with 403": Case(task(), CREATE, Refused(403, "bad"), S.ATTEMPT_COMPLETED, -310),
    "refused with 413": Case(task(), CREATE, Refused(413, "bad"), S.ATTEMPT_COMPLETED, -200),
    "refused with 422": Case(task(), CREATE, Refused(422, "bad"), S.ATTEMPT_COMPLETED, -200),
    "refused after its end was decided": Case(
        task(S.CREATION_PENDING, ended(-230)), CREATE, Refused(422, "bad"), S.ATTEMPT_COMPLETED, -230
    ),
    "deleted": Case(TO_DELETE, DELETE, Done(), S.DELETION_REQUESTED, 0),
    "was gone already": Case(TO_DELETE, DELETE, Missing(), S.DELETION_REQUESTED, 0),
    "not deleted": Case(TO_DELETE, DELETE, Failed("sick"), S.DELETION_PENDING, 0),
    "deleted by force, shows later": Case(task(S.DELETING, ended(0)), FORCE, Done(), S.DELETING, 0, later=True),
    "never seen, confirmed to be gone": Case(UNSEEN, CONFIRM, Missing(), S.ATTEMPT_COMPLETED, -111),
    "never seen, was there: ask until it is gone": Case(
        UNSEEN, CONFIRM, Done(), S.CREATION_REQUESTED, -111, later=True
    ),
    "seen after all before it was confirmed": Case(
        task(S.PREPARING, ended(-111)), CONFIRM, Missing(), S.PREPARING, -111, later=True
    ),
    "another Pod was confirmed to be gone": Case(
        task(S.CREATION_REQUESTED, ended(-111), pod_uid="another"),
        CONFIRM,
        Missing(),
        S.CREATION_REQUESTED,
        -111,
        later=True,
    ),
    "a stray is deleted, shows later": Case(task(), STRAY, Done(), S.CREATION_PENDING, later=True),
    "a stray was gone already": Case(task(), STRAY, Missing(), S.CREATION_PENDING, later=True),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_task_moves_on_with_the_answer(case: Case) -> None:
    book, outbox = book_of(case.was), Outbox(lambda: 0.5)
    settle_pod(book, outbox, case.effect, case.outcome, at(7.9))
    now = book.task(W0)
    assert now is not None
    assert (now.state, now.completion and now.completion.code) == (case.becomes, case.code)
    assert now == case.was or now.transition_time == at(7)
    assert (outbox.wait_until(case.effect.key, at(7.9)) is not None) == case.later
    assert W0 in book.take_dirty(at(7.9))


def test_a_created_pod_is_recorded() -> None:
    book = book_of(task())
    settle_pod(book, Outbox(lambda: 0.5), CREATE, Done(uid="new-uid"), at(1))
    now = book.task(W0)
    assert now is not None
    assert now.attempt_status.pod_uid == "new-uid"
    assert not book.is_shown(W0)


def test_a_refusal_is_told_in_the_servers_words() -> None:
    book = book_of(task())
    settle_pod(book, Outbox(lambda: 0.5), CREATE, Refused(422, '{"kind":"Status"}'), at(1))
    now = book.task(W0)
    assert now is not None
    assert now.completion is not None
    assert now.completion.diagnostics == 'Failed to create Pod: {"kind":"Status"}'


def test_an_answer_for_a_task_that_was_removed_is_nobodys() -> None:
    book, outbox = book_of(task()), Outbox(lambda: 0.5)
    before = book.revision
    settle_pod(book, outbox, DeletePod("worker", 5, "uid"), Done(), at(1))
    settle_pod(book, outbox, DeletePod("gone", 0, "uid"), Done(), at(1))
    assert book.revision == before


@dataclass(frozen=True)
class FrameworkCase:
    """The same of a Framework."""

    was: FrameworkStatus
    effect: CreateConfigMap | DeleteConfigMap
    outcome: Outcome
    becomes: State
    later: bool = False


MAKE, REMOVE = CreateConfigMap(0, b"{}"), DeleteConfigMap(CONFIG_MAP_UID)
REMOVE_UNSEEN = DeleteConfigMap(CONFIG_MAP_UID, confirm=True)
NEVER_SEEN = framework(S.CREATION_REQUESTED, framework_end(-110))
ENDING = framework(S.DELETION_PENDING, framework_end(0))
FRAMEWORK_CASES = {
    "created": FrameworkCase(framework(), MAKE, Done(uid="new-uid"), S.CREATION_REQUESTED),
    "not created": FrameworkCase(framework(), MAKE, Failed("sick"), S.CREATION_PENDING),
    "refused: no end of anything": FrameworkCase(framework(), MAKE, Refused(403, "bad"), S.CREATION_PENDING),
    "deleted": FrameworkCase(ENDING, REMOVE, Done(), S.DELETION_REQUESTED),
    "was gone already": FrameworkCase(ENDING, REMOVE, Missing(), S.DELETION_REQUESTED),
    "not deleted": FrameworkCase(ENDING, REMOVE, Failed("sick"), S.DELETION_PENDING),
    "another one was deleted": FrameworkCase(
        ENDING, DeleteConfigMap("stray-uid"), Done(), S.DELETION_PENDING, later=True
    ),
    "never seen, confirmed to be gone": FrameworkCase(NEVER_SEEN, REMOVE_UNSEEN, Missing(), S.ATTEMPT_COMPLETED),
    "never seen, was there: ask until it is gone": FrameworkCase(
        NEVER_SEEN, REMOVE_UNSEEN, Done(), S.CREATION_REQUESTED, later=True
    ),
    "a stray is deleted": FrameworkCase(
        framework(), DeleteConfigMap("stray-uid"), Done(), S.CREATION_PENDING, later=True
    ),
}


@pytest.mark.parametrize("case", FRAMEWORK_CASES.values(), ids=FRAMEWORK_CASES)
def test_a_framework_moves_on_with_the_answer(case: FrameworkCase) -> None:
    book, outbox = Book("fw"), Outbox(lambda: 0.5)
    book.set(case.was)
    settle_config_map(book, outbox, case.effect, case.outcome, at(7.9))
    assert book.known.state is case.becomes
    assert book.known == case.was or book.known.transition_time == at(7)
    assert (outbox.wait_until(CONFIG_MAP, at(7.9)) is not None) == case.later


def test_people_hear_why_a_pod_is_not_created() -> None:
    book = book_of(task())
    book.take_announcements()
    settle_pod(book, Outbox(lambda: 0.5), CREATE, Failed("exceeded quota"), at(1))
    book.acknowledge(book.revision)
    assert [one.message for one in book.take_announcements()] == ["Pod of worker-0: exceeded quota"]


@pytest.mark.parametrize("outcome", [Failed("sick"), Refused(403, "sick")], ids=["failed", "refused"])
def test_people_hear_why_nothing_begins(outcome: Outcome) -> None:
    book, outbox = Book("fw"), Outbox(lambda: 0.5)
    book.set(framework())
    settle_config_map(book, outbox, MAKE, outcome, at(1))
    book.acknowledge(book.revision)
    assert [(one.reason, one.message) for one in book.take_announcements()] == [("FailedCreate", "ConfigMap: sick")]
