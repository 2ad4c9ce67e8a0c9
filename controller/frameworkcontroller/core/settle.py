"""What the outcome of an effect means for the state machines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frameworkcontroller.api.codes import Code
from frameworkcontroller.api.states import State

from . import announce, classify, framework, task
from .effects import (
    CreateConfigMap,
    CreatePod,
    DeleteConfigMap,
    DeletePod,
    Done,
    Failed,
    Missing,
    Refused,
)

if TYPE_CHECKING:
    from datetime import datetime

    from frameworkcontroller.api.types import TaskStatus

    from .book import Book
    from .effects import Effect, Outcome
    from .outbox import Outbox

# The server understood the Pod and will never take it (source: the Framework API, section 5).
PERMANENT_REFUSALS = frozenset({413, 422})


def failure_of(effect: Effect, outcome: Outcome) -> Failed | None:
    """What calls for patience, None if nothing does. A lasting refusal is an answer only to the creation of a Pod."""
    match effect, outcome:
        case _, Failed():
            return outcome
        case CreatePod(), Refused():
            return None
        case _, Refused():
            # No code ends an attempt for this; the reason may pass (a quota, a namespace on its way out).
            return Failed(outcome.message)
        case CreatePod() | CreateConfigMap(), Missing():
            return Failed("the namespace is not there")
        case _:
            return None


def settle_pod(book: Book, outbox: Outbox, effect: CreatePod | DeletePod, outcome: Outcome, now: datetime) -> None:
    """Move the Task on, if it is still the one that the effect was for."""
    slot = (effect.role, effect.index)
    book.touch(slot)
    current = book.task(slot)
    if current is None:
        return
    stamp = task.utc_seconds(now)
    match effect, outcome:
        case CreatePod(), Done():
            book.put(slot, task.record_pod(current, outcome.uid, stamp))
        case CreatePod(), Failed():
            book.announce(announce.of_trouble(f"Pod of {effect.role}-{effect.index}", outcome.message))
        case CreatePod(), Refused():
            permanent = outcome.code in PERMANENT_REFUSALS
            code = Code.POD_CREATION_PERMANENT_ERROR if permanent else Code.POD_CREATION_UNKNOWN_ERROR
            refusal = classify.predefined(code, f"Failed to create Pod: {outcome.message}")
            book.put(slot, task.move(task.complete(current, refusal), State.ATTEMPT_COMPLETED, stamp))
        case DeletePod(confirm=True), Missing() if is_unseen(current, effect.uid):
            book.put(slot, task.move(current, State.ATTEMPT_COMPLETED, stamp))
        case DeletePod(recorded=True), Done() | Missing() if current.state is State.DELETION_PENDING:
            book.put(slot, task.move(current, State.DELETION_REQUESTED, stamp))
        case DeletePod(), Done() | Missing():
            outbox.ask_again_later(effect.key, now)
        case _:
            pass


def is_unseen(current: TaskStatus, uid: str) -> bool:
    """Whether the Task still waits for the Pod of this UID to show up."""
    return current.state is State.CREATION_REQUESTED and current.attempt_status.pod_uid == uid


def settle_config_map(
    book: Book, outbox: Outbox, effect: CreateConfigMap | DeleteConfigMap, outcome: Outcome, now: datetime
) -> None:
    """Move the Framework attempt on, if it is still the one that the effect was for."""
    status = book.known
    stamp = task.utc_seconds(now)
    match effect, outcome:
        case CreateConfigMap(), Done():
            book.set(framework.record_config_map(status, outcome.uid, stamp))
        case CreateConfigMap(), Failed() | Refused():
            book.announce(announce.of_trouble("ConfigMap", outcome.message))
        case DeleteConfigMap(confirm=True), Missing() if status.state is State.CREATION_REQUESTED:
            book.set(framework.move(status, State.ATTEMPT_COMPLETED, stamp))
        case DeleteConfigMap(), Done() | Missing() if is_wanted_deletion(book, effect.uid):
            book.set(framework.move(status, State.DELETION_REQUESTED, stamp))
        case DeleteConfigMap(), Done() | Missing():
            outbox.ask_again_later(effect.key, now)
        case _:
            pass


def is_wanted_deletion(book: Book, uid: str) -> bool:
    """Whether the attempt waits for exactly this ConfigMap to be deleted."""
    status = book.known
    return status.state is State.DELETION_PENDING and status.attempt_status.config_map_uid == uid
