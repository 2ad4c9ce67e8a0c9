"""Notices that somebody else has changed the ConfigMap of an attempt, and says when its roster is written again.

The caches hold only the metadata of ConfigMaps, and every change of an object raises its resourceVersion. So a version
above that of the controller's own last write is a change by somebody else, whatever was changed; a version below it is
a late cache. The roster is sent once more then. The API server does not write an object that a request does not
change, and answers with the version that it had: only another one means that something was to be put right.

Somebody who goes on changing it is answered later and later, so that he costs one request a minute. A second leader is
somebody else, too (docs/decisions/roster.md#a-roster-that-somebody-else-changes-is-written-again).
"""

from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from frameworkcontroller.api.meta import order_of

PAUSE_FIRST: Final = timedelta(seconds=1)
PAUSE_MAX: Final = timedelta(seconds=60)
FORGET_AFTER: Final = timedelta(minutes=10)
"""After so much time without a change by somebody else, the next one is answered at once again."""


class Guard(Struct, frozen=True):
    """What is known of the ConfigMap, and how often it was put right."""

    version: str = ""
    """The resourceVersion of the controller's last write, "" if that is not known."""
    answered: int = 0
    """Changes by others that were answered, in a row."""
    answered_at: datetime | None = None
    """The steady time of the last answer."""
    answering: str | None = None
    """The version that the answer in flight is about, None if there is none."""


def is_changed(guard: Guard, seen: str) -> bool:
    """Report whether the version that is seen may be somebody else's; also if the own one is not known."""
    if seen == guard.version:
        return False
    order = order_of(seen, guard.version)
    return not guard.version if order is None else order > 0


def due(guard: Guard, now: datetime) -> datetime:
    """Return when a change may be answered."""
    if guard.answered_at is None or now - guard.answered_at >= FORGET_AFTER:
        return now
    return guard.answered_at + min(PAUSE_FIRST * 2.0 ** min(guard.answered - 1, 10), PAUSE_MAX)


def answer(guard: Guard, seen: str, now: datetime) -> Guard:
    """Return the guard after the roster was sent because of the version that is seen."""
    quiet = guard.answered_at is None or now - guard.answered_at >= FORGET_AFTER
    return replace(guard, answered=1 if quiet else guard.answered + 1, answered_at=now, answering=seen)


def written(guard: Guard, version: str) -> tuple[Guard, bool]:
    """Take in the version after a write of the controller, and return whether the write has put something right."""
    restored = guard.answering is not None and version != guard.answering
    return replace(guard, version=version, answering=None), restored
