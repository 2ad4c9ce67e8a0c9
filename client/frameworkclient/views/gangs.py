"""Gangs of other controllers, by the rosters that the controller keeps of them. Pure."""

import zlib
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

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
    namespace: str
    name: str
    attempt: int = field(name="attemptID")


class _Roster(Struct, frozen=True, rename="camel"):
    framework: _Owner
    ready: int
    total: int
    complete: bool
    waiting_for: tuple[Waiting, ...] = ()
    never: str = ""


class RosterMap(Struct, frozen=True, rename="camel"):
    """A ConfigMap with the roster of a gang, plain or compressed."""

    metadata: Meta
    data: dict[str, str] = {}
    binary_data: dict[str, bytes] = {}

    def roster(self, most_bytes: int) -> bytes:
        """Return the roster as JSON, of a compressed one no more than so many bytes.

        Raises:
            ValueError: It has none.
        """
        if text := self.data.get(names.ROSTER_KEY, ""):
            return text.encode()
        packed = self.binary_data.get(names.ROSTER_GZIP_KEY, b"")
        try:
            return zlib.decompressobj(wbits=31).decompress(packed, most_bytes)
        except zlib.error as error:
            raise ValueError(str(error)) from error


class GangView:
    """One start of a gang, by the ConfigMap of its roster.

    Raises:
        ValueError: It has none.
    """

    def __init__(self, document: bytes) -> None:
        found = msgspec.json.decode(document, type=RosterMap)
        self.roster = msgspec.json.decode(found.roster(MOST_BYTES), type=_Roster)
        self.owner, self.kind = self.roster.framework, found.metadata.labels.gang or ""
        self.created = found.metadata.creation_timestamp or datetime.now(UTC)

    @property
    def state(self) -> str:
        """One word for people."""
        return "Impossible" if self.roster.never else "Complete" if self.roster.complete else "Waiting"

    @property
    def document(self) -> dict[str, Any]:
        """All of it, as JSON and YAML have it."""
        found: dict[str, Any] = {"kind": self.kind, "state": self.state} | msgspec.to_builtins(self.roster)
        return found

    def explain(self) -> Iterator[str]:
        """Yield the lines of a page: how far the gang is, and what keeps it."""
        owner, one = self.owner, self.roster
        attempt = f", attempt {owner.attempt}" if owner.attempt else ""
        who, how = f"{self.kind} {owner.namespace}/{owner.name}", self.state.lower()
        yield f"{who} is {how}, {one.ready}/{one.total} ready{attempt}"
        if one.never:
            yield f"it can never be complete: {one.never}"
            return
        yield from (f"{each.task}: {each.why}" for each in one.waiting_for)
        unnamed = one.total - one.ready - len(one.waiting_for)
        if unnamed > 0 and not one.complete:
            yield f"and {unnamed} more"
