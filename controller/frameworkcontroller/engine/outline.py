"""Completed Frameworks as the cache keeps them: in outline, since they are kept for weeks and nothing happens to them.

A Framework is at rest when it is Completed, its status speaks of its newest spec, and nobody has asked to delete it.
Only time or a user changes that. So the engine needs to know when to delete it and nothing else; before it acts, it
reads the Framework again.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec
from msgspec import Raw

from frameworkcontroller.api.framework import Framework
from frameworkcontroller.api.meta import Wire
from frameworkcontroller.api.states import State


class _Status(Wire, frozen=True):
    state: str = ""
    transition_time: datetime | None = None
    observed_generation: int = 0


_STATUS: Final = msgspec.json.Decoder(_Status)


class Outline(Framework, frozen=True, dict=True, gc=True, kw_only=True):
    """What is kept of a Framework at rest: its identity as metadata, and no spec.

    Attributes:
        since: when it was Completed.
        ttl_seconds: its `ttlSecondsAfterFinished`.
    """

    since: datetime
    ttl_seconds: int | None


def outline_of(found: Framework) -> Outline | None:
    """Return the outline of a Framework that is at rest, None of any other.

    Raises:
        msgspec.DecodeError: its metadata, spec or status cannot be read.
    """
    if isinstance(found, Outline):
        return found
    if b'"Completed"' not in bytes(found.status):
        return None
    status, meta = _STATUS.decode(found.status), found.metadata
    if status.state != State.COMPLETED or status.transition_time is None:
        return None
    if status.observed_generation != meta.generation or meta.deletion_timestamp is not None:
        return None
    identity = {
        "name": meta.name,
        "namespace": meta.namespace,
        "uid": meta.uid,
        "resourceVersion": meta.resource_version,
        "generation": meta.generation,
    }
    return Outline(
        raw_metadata=Raw(msgspec.json.encode(identity)),
        raw_spec=Raw(b"{}"),
        status=Raw(b'{"state":"Completed"}'),
        since=status.transition_time,
        ttl_seconds=found.spec.ttl_seconds_after_finished,
    )
