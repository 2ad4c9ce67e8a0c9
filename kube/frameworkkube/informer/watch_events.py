"""Decodes the lines of a watch and the pages of a list; an object that cannot be decoded costs only itself."""

import asyncio
import re
from collections.abc import Callable
from enum import StrEnum
from typing import Any, Final, Generic, TypeVar

import msgspec

from frameworkkube import json_parts
from frameworkkube.errors import KubeError, error_of_status
from frameworkkube.informer.store import HasMetadata

T = TypeVar("T", bound=HasMetadata)
D = TypeVar("D")

_LARGE_BYTES: Final = 1 << 18
"""From this size on, a page or a line is decoded beside the loop."""
_END_OF_LIST: Final = "k8s.io/initial-events-end"
_BOM = b"\xef\xbb\xbf"
_PLAIN_EVENT = re.compile(rb'\{"type":"([A-Z]+)","object":(\{.*\})\}\s*+', re.DOTALL)


class EventType(StrEnum):
    """The type of a watch event."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


_CHANGES = frozenset({EventType.ADDED, EventType.MODIFIED, EventType.DELETED})


class MalformedError(KubeError):
    """A line or a page that breaks the protocol: no JSON, or no event or list."""


class Identity(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """The metadata of an object that the decoder refused, as far as it can be read."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class UndecodableObject(msgspec.Struct, frozen=True, gc=False):
    """An object that does not fit the decoder's type."""

    identity: Identity
    reason: str


class Event(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """One line: a change of an object, decodable or not, or a bookmark (only a resourceVersion)."""

    type: str
    object: T | UndecodableObject | None
    resource_version: str
    raw: bytes = b""
    """The JSON of the object, only for a deletion."""
    ends_list: bool = False
    """Of a bookmark: all objects that existed have been sent before it."""


class Page(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """One page of a list; `token` leads to the next, empty on the last."""

    resource_version: str
    token: str
    items: list[T | UndecodableObject]


class _RawEvent(msgspec.Struct, frozen=True, gc=False):
    type: str
    object: msgspec.Raw


class _MetadataOnly(msgspec.Struct, frozen=True, gc=False):
    metadata: Identity = Identity()


class _BookmarkMeta(msgspec.Struct, frozen=True, rename="camel", gc=False):
    resource_version: str = ""
    annotations: dict[str, str] | None = None


class _Bookmark(msgspec.Struct, frozen=True, gc=False):
    metadata: _BookmarkMeta = _BookmarkMeta()


class _ListMeta(msgspec.Struct, frozen=True, rename="camel", gc=False):
    resource_version: str = ""
    # "continue" is a keyword in Python.
    token: str = msgspec.field(default="", name="continue")


class _RawList(msgspec.Struct, frozen=True, gc=False):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None


_metadata = msgspec.json.Decoder(_MetadataOnly)
_identities = msgspec.json.Decoder(Identity)
_bookmarks = msgspec.json.Decoder(_Bookmark)
_raw_events = msgspec.json.Decoder(_RawEvent)
_raw_lists = msgspec.json.Decoder(_RawList)
_list_meta = msgspec.json.Decoder(_ListMeta)
_statuses = msgspec.json.Decoder(dict[str, Any])
_texts = msgspec.json.Decoder(str)


class WireDecoder(Generic[T]):
    """Decodes lists and watch lines of the kind whose decoder it is given."""

    def __init__(self, objects: msgspec.json.Decoder[T]) -> None:
        self._objects = objects
        # Decoding the line in one pass takes half the time of two. A line that does not fit is decoded in two passes.
        line = msgspec.defstruct("Line", [("type", str), ("object", objects.type)], frozen=True, gc=False)
        self._lines: msgspec.json.Decoder[Any] = msgspec.json.Decoder(
            line, strict=objects.strict, dec_hook=objects.dec_hook
        )

    def page(self, body: bytes) -> Page[T]:
        """Decode one page.

        Raises:
            MalformedError: the body is not a list.
        """
        try:
            raw = _raw_list(body)
        except (ValueError, LookupError) as error:
            raise MalformedError(f"not a list: {error}") from error
        if not raw.metadata.resource_version:
            # A Status, for example. Taken for an empty list, it would empty the cache.
            raise MalformedError("not a list: it has no metadata.resourceVersion")
        # Copies: a part that stays encoded would keep the whole page in memory for as long as its object is cached.
        items = [self._object(item.copy()) for item in raw.items or ()]
        return Page(raw.metadata.resource_version, raw.metadata.token, items)

    def quick(self, line: bytes) -> Event[T] | None:
        """Decode an ordinary line, which takes some milliseconds at most; None for one that `event` has to look at."""
        try:
            quick = self._lines.decode(line)
            if quick.type in _CHANGES:
                raw = bytes(_raw_events.decode(line).object) if quick.type == EventType.DELETED else b""
                return Event(quick.type, quick.object, quick.object.metadata.resource_version, raw)
        except Exception:  # noqa: BLE001 -- whatever is wrong, two passes find out whether only the object is
            return None
        return None

    def event(self, line: bytes) -> Event[T] | None:
        """Decode one line, None for a blank one. An event of an unknown type has no object.

        Raises:
            MalformedError: the line is not an event.
            ApiStatusError: the server ended the watch with an ERROR event.
        """
        return self.quick(line) or self._event_in_two_passes(line.removeprefix(_BOM))

    def _event_in_two_passes(self, line: bytes) -> Event[T] | None:
        if not line or line.isspace():
            return None
        try:
            raw, identity = _raw_event(line)
        except (ValueError, LookupError) as error:
            raise MalformedError(f"not a watch event: {error}") from error
        match raw.type:
            case change if change in _CHANGES:
                found = self._object(raw.object, identity)
                deleted = bytes(raw.object) if raw.type == EventType.DELETED else b""
                if isinstance(found, UndecodableObject):
                    return Event(raw.type, found, found.identity.resource_version)
                return Event(raw.type, found, found.metadata.resource_version, deleted)
            case EventType.BOOKMARK:
                return _bookmark(raw.object)
            case "ERROR":
                raise error_of_status(_decoded_or_none(_statuses, raw.object) or {})
            case _:
                return Event(raw.type, None, "")

    def _object(self, raw: msgspec.Raw, identity: Identity | None = None) -> T | UndecodableObject:
        try:
            found = self._objects.decode(raw)
            # A type may decode its parts when they are first asked for; the cache asks for this one.
            found.metadata  # noqa: B018 -- see above
        except Exception as error:  # noqa: BLE001 -- whatever is wrong with it, it costs only itself
            return UndecodableObject(identity or _identity(raw), str(error) or type(error).__name__)
        return found


def _raw_list(body: bytes) -> _RawList:
    """Cut a page into its objects, by the fast decoder, or in spite of what it refuses.

    Raises:
        ValueError, LookupError: the page is not a list.
    """
    try:
        return _raw_lists.decode(body)
    except (ValueError, RecursionError):
        items, metadata = json_parts.page(body)
        return _RawList(_list_meta.decode(metadata), [msgspec.Raw(item) for item in items])


def _raw_event(line: bytes) -> tuple[_RawEvent, Identity | None]:
    """Cut a line into type and object, likewise, and say whose object it is where that had to be found out.

    Raises:
        ValueError, LookupError: the line is not an event.
    """
    try:
        return _raw_events.decode(line), None
    except (ValueError, RecursionError) as error:
        plain = _PLAIN_EVENT.fullmatch(line) if isinstance(error, RecursionError) else None
        if plain is not None and (identity := _identity(msgspec.Raw(plain[2]))).resource_version:
            # As the API server writes it: its end is known without a look at each bracket of a deep object.
            return _RawEvent(plain[1].decode(), msgspec.Raw(plain[2])), identity
        parts = json_parts.members(line)
        found = msgspec.Raw(parts["object"])
        if not (identity := _identity(found)).resource_version:
            # Nobody's object: the stream itself is broken, and only a list gets past that.
            raise ValueError(str(error)) from error
        return _RawEvent(msgspec.json.decode(parts["type"], type=str), found), identity


def _identity(raw: msgspec.Raw) -> Identity:
    """Read what names the object, field by field if need be: without it no message can say which object it is."""
    document = bytes(raw)
    for readable in (document, _names_only(document)):
        if (found := _decoded_or_none(_metadata, readable)) is not None and found.metadata.resource_version:
            return found.metadata
    try:
        whole = json_parts.member(document, "metadata")
        if (identity := _decoded_or_none(_identities, whole)) is not None:
            return identity
        metadata = json_parts.members(whole)
    except (ValueError, LookupError):
        return Identity()
    names = (field.encode_name for field in msgspec.structs.fields(Identity))
    return Identity(*(_decoded_or_none(_texts, metadata.get(name, b"")) or "" for name in names))


def _names_only(document: bytes) -> bytes:
    """Return an object as the API server writes it without its spec, what follows that, and its `managedFields`.

    These are what a user can make deep, and a megabyte. In custom resources names are sorted, so `name` follows; of
    Pods, ConfigMaps and metadata alone nothing follows that names them. No string contains what is looked for: its
    quotes would be escaped; nor does anything before the spec, where names like these lead to strings.
    """
    head = document.partition(b'},"spec":{')[0] + b"}}"
    before, found, after = head.partition(b'"managedFields":[')
    _, is_sorted, rest = after.partition(b'}],"name":')
    if found and not is_sorted:
        return before.rstrip(b",") + b"}}"
    return before + b'"name":' + rest if found else head


def _bookmark(raw: msgspec.Raw) -> Event[Any]:
    found = _decoded_or_none(_bookmarks, raw)
    if found is None:
        return Event(EventType.BOOKMARK, None, _identity(raw).resource_version)
    ends_list = (found.metadata.annotations or {}).get(_END_OF_LIST) == "true"
    return Event(EventType.BOOKMARK, None, found.metadata.resource_version, ends_list=ends_list)


def _decoded_or_none(decoder: msgspec.json.Decoder[D], raw: bytes | msgspec.Raw) -> D | None:
    try:
        return decoder.decode(raw)
    except (ValueError, RecursionError):
        return None


async def decoded(decode: Callable[[bytes], D], document: bytes) -> D:
    """Decode a document, a large one in a thread: a page of a list, or a line that `WireDecoder.quick` refuses.

    Where one object makes the fast decoder refuse a page, it is cut bracket by bracket, which takes up to 50 times as
    long. The loop has to renew the lease meanwhile: a leader that loses it ends, and the next one meets the same page.
    """
    if len(document) < _LARGE_BYTES:
        return decode(document)
    return await asyncio.to_thread(decode, document)
