"""How an informer learns of all objects: in one stream, in pages, or, where paging is too slow, in one answer.

`informer` asks `Lists` for the way of its next list and says what became of it. A stream is a watch that begins with
all objects and marks their end (`sendInitialEvents`): neither side holds a page of it, and one request does for the
list and the changes after it. Servers that cannot do it refuse, or do not know the parameter.

A page of a list has a bounded size, not a bounded count. The API server knows only counts: 500 Pods are 2 MiB, 500
large objects 500 MiB. A list begins with few objects, and the next page is chosen by the size of what has come so far.
A page that is still too large is not read to its end.
"""

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final, Generic, TypeVar

from frameworkkube.errors import AnswerTooLargeError, KubeError, RequestTimeoutError, is_unknown_version
from frameworkkube.http.client import PARTIAL_METADATA, PARTIAL_METADATA_LIST, KubeClient
from frameworkkube.informer.store import HasMetadata
from frameworkkube.informer.watch_events import Page, WireDecoder, decoded

T = TypeVar("T", bound=HasMetadata)

LIST_TIMEOUT_SECONDS: Final = 60.0
STREAM: Final = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
"""The parameters of a watch that is a list, too. Without a resourceVersion it is consistent, as a list is."""
FIRST_OBJECTS: Final = 20
"""Of the largest objects that etcd takes by default (1.5 MiB), so many are less than `MOST_BYTES`."""
WANTED_BYTES: Final = 8 << 20
MOST_BYTES: Final = 32 << 20
_SHRINK_BY: Final = 8
_UNOPENED_STREAMS: Final = 3
REFUSALS: Final = frozenset({400, 422})
"""What a server that knows the parameters and does not allow them answers, and a proxy that does not know them."""


class NotStreamedError(KubeError):
    """The server cannot stream a list; nothing is wrong with it."""


class Way(Enum):
    """How to list."""

    STREAMED = auto()
    PAGES = auto()
    WHOLE = auto()
    """In one answer: the tokens of pages have expired on the way."""


class Lists:
    """Chooses the `way` of the next list: in a stream, if that is wanted, and the server can do it."""

    def __init__(self, *, streamed: bool) -> None:
        self._preferred = Way.STREAMED if streamed else Way.PAGES
        self.way = self._preferred
        self._unopened = 0

    def refused(self) -> None:
        """Take in that the server cannot stream: it is not asked again."""
        self._preferred = self.way = Way.PAGES

    def broke_off(self, *, opened: bool) -> None:
        """Take in that a stream ended too early, whatever the reason: pages get further.

        One that was not open may be tried again, but not for ever: what stands before the server may refuse it in its
        own way.
        """
        self._unopened += not opened
        if opened or self._unopened >= _UNOPENED_STREAMS:
            self.way = Way.PAGES

    def failed(self, error: KubeError) -> None:
        """Take in why a list has failed: pages by their version take longer than a compaction, one answer too long."""
        if self.way is Way.WHOLE and (is_unknown_version(error) or isinstance(error, RequestTimeoutError)):
            self.way = self._preferred
        elif is_unknown_version(error):
            self.way = Way.WHOLE

    def complete(self) -> None:
        """Take in that everything was listed."""
        self.way = self._preferred
        self._unopened = 0


class PageSize:
    """The number of `objects` to ask for next, at most so many per page, however small they are."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.objects = min(FIRST_OBJECTS, most)

    @property
    def max_bytes(self) -> int | None:
        """The size beyond which a page is not read; None for a single object, which cannot be had in parts."""
        return MOST_BYTES if self.objects > 1 else None

    def took(self, objects: int, size: int) -> None:
        """Choose the next page by the size in bytes of the objects in this one; an empty one says nothing."""
        if objects:
            fitting = WANTED_BYTES * objects // max(size, 1)
            self.objects = min(max(fitting, 1), self._most)

    def was_too_large(self) -> None:
        """Ask for far fewer objects: the page had more than `max_bytes`."""
        self.objects = max(1, self.objects // _SHRINK_BY)


class Pager(Generic[T]):
    """Reads a collection page by page, of so many objects at most; `accept` is that of a single object."""

    def __init__(
        self, client: KubeClient, path: str, wire: WireDecoder[T], selector: Mapping[str, str], accept: str, most: int
    ) -> None:
        self._client, self._path, self._wire, self._selector = client, path, wire, selector
        self._accept = PARTIAL_METADATA_LIST if accept == PARTIAL_METADATA else accept
        self._size = PageSize(most)

    async def read(self, token: str, *, whole: bool) -> Page[T]:
        """Read the page to which the token leads, the first without one, or the whole list in one answer.

        Raises:
            KubeError: see `KubeClient.request`; `MalformedError` if the answer is no list.
        """
        query, size = dict(self._selector), self._size
        if not whole:
            query["limit"] = str(size.objects)
        if token:
            query["continue"] = token
        try:
            # No resourceVersion: the list must be consistent, not what a lagging server's cache holds.
            body = await self._client.request(
                "GET",
                self._path,
                query=query,
                accept=self._accept,
                timeout_seconds=LIST_TIMEOUT_SECONDS,
                max_bytes=None if whole else size.max_bytes,
            )
        except AnswerTooLargeError:
            size.was_too_large()
            return await self.read(token, whole=whole)
        page: Page[T] = await decoded(self._wire.page, body)
        size.took(len(page.items), len(body))
        return page
