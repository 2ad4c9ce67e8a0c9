"""What the answer to one attempt at writing the status means: pure, so that a table can test it.

`Performer` writes the status, or reads the Framework, translates the API server's answer into one of the values below,
and asks `verdict` how to go on. Sending a write again is safe, since its resourceVersion lets only one attempt take
effect (docs/decisions/0005-replace-the-status-with-a-precondition.md). It never waits: a write that cannot be made now
leaves its place to the other Frameworks, and the reconciler asks for it again after a back-off.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from frameworkcontroller.api.status import is_same
from frameworkcontroller.core.effects import Done, Failed, Missing, Outcome, Refused, StaleStatus

if TYPE_CHECKING:
    from frameworkcontroller.api.status import FrameworkStatus
    from frameworkcontroller.core.effects import WriteStatus

# --- the answers -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Accepted:
    """The status was written."""

    resource_version: str


@dataclass(frozen=True)
class Conflicting:
    """The object has another resourceVersion than the one that was written upon."""


@dataclass(frozen=True)
class NotFound:
    """There is no Framework of this name."""


@dataclass(frozen=True)
class Rejected:
    """The API server will not take the status, however often it is sent."""

    code: int
    message: str


@dataclass(frozen=True)
class Unavailable:
    """The API server could not answer now, or its answer was lost: the write may have taken effect."""

    message: str
    retry_after_seconds: float | None = None


@dataclass(frozen=True)
class Found:
    """The Framework was read."""

    uid: str
    resource_version: str
    status: FrameworkStatus | None


Answer: TypeAlias = Accepted | Conflicting | NotFound | Rejected | Unavailable | Found

# --- the verdicts, besides the outcomes ------------------------------------------------------------------------------


@dataclass(frozen=True)
class ReadFirst:
    """Read the Framework, and ask again with what was `Found`."""


@dataclass(frozen=True)
class SendUpon:
    """Send the status at once, upon this resourceVersion."""

    resource_version: str


Verdict: TypeAlias = Outcome | ReadFirst | SendUpon


def verdict(effect: WriteStatus, uid: str, answer: Answer) -> Verdict:
    """Return the outcome of the write, or what to do next.

    Args:
        effect: the write.
        uid: of the Framework instance that is meant.
        answer: to the last attempt, or to reading the Framework after it.
    """
    match answer:
        case Accepted():
            return Done(resource_version=answer.resource_version)
        case Conflicting():
            return ReadFirst()
        case NotFound():
            return Missing()
        case Rejected():
            return Refused(answer.code, answer.message)
        case Unavailable():
            # If the write took effect unseen, the next one conflicts with it and knows it (`unanswered`).
            return Failed(answer.message, answer.retry_after_seconds)
        case Found():
            return _verdict_on(effect, uid, answer)


def _verdict_on(effect: WriteStatus, uid: str, found: Found) -> Verdict:
    """Return why the write conflicted: it took effect earlier, another writer was faster, or only the rest changed."""
    if found.uid != uid:
        return Missing()
    if is_same(found.status, effect.previous, effect.previous_roles):
        return SendUpon(found.resource_version)
    if is_same(found.status, effect.status):
        return Done(resource_version=found.resource_version)
    if effect.unanswered is not None and is_same(found.status, effect.unanswered):
        return SendUpon(found.resource_version)
    return StaleStatus()
