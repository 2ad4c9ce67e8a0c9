"""Gangs of other controllers, by the rosters that the controller keeps of them. Pure."""

import zlib
from base64 import b64decode
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

import msgspec
from msgspec import Struct, field

from frameworkcontroller.api import names
from frameworkcontroller.api.meta import Meta

MOST_BYTES: Final = 64 * 1024 * 1024


class Waiting(Struct, frozen=True):
    """One that is missing, and why."""

    task: str
    why: str


class _Owner(Struct, frozen=True):
    name: str
    attempt_id: int = field(name="attemptID")


class _Roster(Struct, frozen=True, rename="camel"):
    framework: _Owner
    ready: int
    total: int
    complete: bool
    waiting_for: tuple[Waiting, ...] = ()
    never: str = ""


class _ConfigMap(Struct, frozen=True, rename="camel"):
    metadata: Meta
    data: dict[str, str] = {}
    binary_data: dict[str, str] = {}


class GangView(Struct, frozen=True):
    """One start of a gang."""

    namespace: str
    kind: str
    name: str
    """Of the object that is the gang."""
    attempt: int
    ready: int
    total: int
    complete: bool
    never: str
    """Why it can never be complete, "" if it can."""
    waiting_for: tuple[Waiting, ...]
    """Some of those that are missing."""
    created: datetime

    @property
    def state(self) -> str:
        """One word for people."""
        return "Impossible" if self.never else "Complete" if self.complete else "Waiting"


def gang_of(document: bytes) -> GangView:
    """Read the ConfigMap of a gang.

    Raises:
        msgspec.DecodeError: It is none.
        ValueError: Its roster cannot be unpacked.
    """
    found = msgspec.json.decode(document, type=_ConfigMap)
    text = found.data.get(names.ROSTER_KEY, "").encode()
    if not text:
        packed = b64decode(found.binary_data.get(names.ROSTER_GZIP_KEY, ""))
        try:
            text = zlib.decompressobj(wbits=31).decompress(packed, MOST_BYTES)
        except zlib.error as error:
            raise ValueError(str(error)) from error
    one, meta = msgspec.json.decode(text, type=_Roster), found.metadata
    return GangView(
        meta.namespace,
        meta.labels.gang or "",
        one.framework.name,
        one.framework.attempt_id,
        one.ready,
        one.total,
        one.complete,
        one.never,
        one.waiting_for,
        meta.creation_timestamp or datetime.now(UTC),
    )


def explain(gang: GangView) -> Iterator[str]:
    """Yield the lines of a page about a gang: how far it is, and what keeps it."""
    attempt = f", attempt {gang.attempt}" if gang.attempt else ""
    yield f"{gang.kind} {gang.namespace}/{gang.name} is {gang.state.lower()}, {gang.ready}/{gang.total} ready{attempt}"
    if gang.never:
        yield f"it can never be complete: {gang.never}"
        return
    yield from (f"{one.task}: {one.why}" for one in gang.waiting_for)
    unnamed = gang.total - gang.ready - len(gang.waiting_for)
    if unnamed > 0 and not gang.complete:
        yield f"and {unnamed} more"
