"""Frameworks at rest as the cache keeps them: in outline, since they are kept for weeks and nothing happens to them.

A Framework is at rest when it is Completed, or when it is not to start (executionType Create, or suspended) and no
attempt has begun, if the status speaks of its newest spec. Only time or a user changes that. So the engine needs to
know when to delete it and nothing else: it deletes exactly what it has seen. One that somebody holds by a finalizer
needs no more.
"""

from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from frameworkcontroller.api import names
from frameworkcontroller.api.framework import Framework
from frameworkcontroller.api.meta import Wire
from frameworkcontroller.api.spec import Waiting
from frameworkcontroller.api.states import State


class _Status(Wire, frozen=True):
    state: str = ""
    transition_time: datetime | None = None
    observed_generation: int = 0
    suspended_since: str = ""


_STATUS: Final = msgspec.json.Decoder(_Status)
_SPEC: Final = msgspec.json.Decoder(Waiting)


class Outline(Framework, frozen=True, dict=True, gc=True, kw_only=True):
    """What is kept of a Framework at rest: its identity as metadata, and no spec."""

    state: State
    """Completed, or AttemptCreationPending."""
    since: datetime | None = None
    """When it was Completed, None if it is not."""
    ttl_seconds: int | None = None
    """Its `ttlSecondsAfterFinished`."""
    is_going: bool = False
    """It is being deleted."""
    is_suspended: bool = False


def stored_state(found: Framework) -> str | None:
    """Return the state of the stored status, None without one.

    Raises:
        msgspec.DecodeError: its status cannot be read.
    """
    return _STATUS.decode(found.status).state if found.has_status else None


def outline_of(found: Framework) -> Outline | None:
    """Return the outline of a Framework that is at rest, None of any other.

    Raises:
        msgspec.DecodeError: its metadata, spec or status cannot be read.
    """
    if isinstance(found, Outline):
        return found
    document = bytes(found.status)
    if b'"Completed"' not in document and b'"AttemptCreationPending"' not in document:
        return None
    status, meta = _STATUS.decode(document), found.metadata
    is_completed = status.state == State.COMPLETED and status.transition_time is not None
    is_going = meta.deletion_timestamp is not None
    if not is_completed and (
        is_going or status.state != State.CREATION_PENDING or not _SPEC.decode(found.raw_spec).is_to_wait
    ):
        return None
    # A deletion counts as a generation, which nobody writes any more.
    if status.observed_generation != meta.generation and not is_going:
        return None
    known: dict[str, Any] = msgspec.to_builtins(replace(meta, creation_timestamp=None))
    identity = {name: value for name, value in known.items() if value is not None}
    if found.is_held:
        identity["finalizers"] = [names.HISTORY_FINALIZER]
    return Outline(
        raw_metadata=Raw(msgspec.json.encode(identity)),
        raw_spec=Raw(b"{}"),
        status=Raw(msgspec.json.encode({"state": status.state})),
        state=State(status.state),
        since=status.transition_time if is_completed else None,
        ttl_seconds=found.spec.ttl_seconds_after_finished if is_completed else None,
        is_going=is_going,
        is_suspended=bool(status.suspended_since),
    )
