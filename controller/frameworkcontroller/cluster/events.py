"""The lines of a watch and the pages of a list, decoded so that one odd object costs one object, not the answer."""

from enum import StrEnum
from typing import Any, Generic, TypeVar

import msgspec

from frameworkcontroller.cluster.errors import ApiStatusError, KubeError, error_of_status
from frameworkcontroller.cluster.store import HasMetadata

T = TypeVar("T", bound=HasMetadata)

_BOM = b"\xef\xbb\xbf"


class EventType(StrEnum):
    """What a watch event says."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


_CHANGES = frozenset({EventType.ADDED, EventType.MODIFIED, EventType.DELETED})


class MalformedError(KubeError):
    """A line or a page that is not what the protocol says: no JSON, or no event or list."""


class Identity(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """As much as can be read of an object that the decoder refused."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class Odd(msgspec.Struct, frozen=True, gc=False):
    """An object that does not fit the decoder's type."""

    identity: Identity
    reason: str


class Event(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """One line: a change of an object, the same of an odd one, or a bookmark (only a resourceVersion)."""

    type: str
    object: T | Odd | None
    resource_version: str
    raw: bytes = b""
    """The whole object as it came, of a deletion only."""


class Page(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """One page of a list; `token` leads to the next, empty on the last."""

    resource_version: str
    token: str
    items: list[T | Odd]


class _RawEvent(msgspec.Struct, frozen=True, gc=False):
    type: str
    object: msgspec.Raw


class _Shell(msgspec.Struct, frozen=True, gc=False):
    metadata: Identity = Identity()


class _ListMeta(msgspec.Struct, frozen=True, rename="camel", gc=False):
    resource_version: str = ""
    # "continue" is a keyword of this language.
    token: str = msgspec.field(default="", name="continue")


class _RawList(msgspec.Struct, frozen=True, gc=False):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


_shells = msgspec.json.Decoder(_Shell)
_raw_events = msgspec.json.Decoder(_RawEvent)
_raw_lists = msgspec.json.Decoder(_RawList)


class WireDecoder(Generic[T]):
    """Decodes lists and watch lines of one kind.

    Args:
        objects: decoder of one object.
    """

    def __init__(self, objects: msgspec.json.Decoder[T]) -> None:
        self._objects = objects
        # One pass over the line instead of two: half the time. What does not fit goes the careful way.
        line = msgspec.defstruct("Line", [("type", str), ("object", objects.type)], frozen=True, gc=False)
        self._lines: msgspec.json.Decoder[Any] = msgspec.json.Decoder(
            line, strict=objects.strict, dec_hook=objects.dec_hook
        )

    def page(self, body: bytes) -> Page[T]:
        """Decodes one page.

        Raises:
            MalformedError: this is no list.
        """
        try:
            raw = _raw_lists.decode(body)
        except (ValueError, RecursionError) as error:
            raise MalformedError(f"not a list: {error}") from error
        return Page(raw.metadata.resource_version, raw.metadata.token, [self._object(item) for item in raw.items or ()])

    def event(self, line: bytes) -> Event[T] | None:
        """Decodes one line.

        Returns:
            None for a line that carries nothing (blank, or an event type of the future).

        Raises:
            MalformedError: this is no event.
            ApiStatusError: the server ended the watch with an ERROR event.
        """
        try:
            quick = self._lines.decode(line)
        except (ValueError, RecursionError):
            return self._careful(line.removeprefix(_BOM))
        if quick.type in _CHANGES:
            raw = bytes(_raw_events.decode(line).object) if quick.type == EventType.DELETED else b""
            return Event(quick.type, quick.object, quick.object.metadata.resource_version, raw)
        return self._careful(line)

    def _careful(self, line: bytes) -> Event[T] | None:
        if not line or line.isspace():
            return None
        try:
            raw = _raw_events.decode(line)
        except (ValueError, RecursionError) as error:
            raise MalformedError(f"not a watch event: {error}") from error
        match raw.type:
            case change if change in _CHANGES:
                found = self._object(raw.object)
                version = found.identity.resource_version if isinstance(found, Odd) else found.metadata.resource_version
                return Event(raw.type, found, version)
            case EventType.BOOKMARK:
                return Event(raw.type, None, _identity(raw.object).resource_version)
            case "ERROR":
                raise _ended(raw.object)
            case _:
                return Event(raw.type, None, "")

    def _object(self, raw: msgspec.Raw) -> T | Odd:
        try:
            return self._objects.decode(raw)
        except (ValueError, RecursionError) as error:
            return Odd(_identity(raw), str(error))


def _identity(raw: msgspec.Raw) -> Identity:
    try:
        return _shells.decode(raw).metadata
    except (ValueError, RecursionError):
        return Identity()


def _ended(raw: msgspec.Raw) -> ApiStatusError:
    try:
        status: Any = msgspec.json.decode(raw)
    except (ValueError, RecursionError):
        status = None
    return error_of_status(status if isinstance(status, dict) else {})
