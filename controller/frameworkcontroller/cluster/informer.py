"""List in pages, then watch, for ever: a cache that is soon right again whatever server, network or proxy do.

The rules and where they come from: bookmarks, a random server timeout and relist on 410 as in client-go's reflector;
the inactivity timer of kopf (a half-open connection is silent, a live one shows a bookmark about each minute); the
comparison by UID is ours: "deleted and made again while nobody watched" is two events for whoever counts instances.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Generic, NoReturn, TypeVar

import msgspec
import structlog

from frameworkcontroller.cluster.backoff import FLOOR_SECONDS, Backoff
from frameworkcontroller.cluster.errors import ApiStatusError, Gone, KubeError, Silent, is_from_the_future
from frameworkcontroller.cluster.events import Event, EventType, MalformedError, Odd, Page, WireDecoder
from frameworkcontroller.cluster.rest import (
    INACTIVITY_TIMEOUT_SECONDS,
    JSON,
    PARTIAL_METADATA,
    PARTIAL_METADATA_LIST,
    KubeClient,
)
from frameworkcontroller.cluster.store import Change, HasMetadata, Key, Store, number

_log = structlog.get_logger(__name__)

T = TypeVar("T", bound=HasMetadata)

LIST_TIMEOUT_SECONDS = 60.0
WATCH_SECONDS = (300, 600)
"""The server ends a watch after a random time between these, so that watches spread over its replicas."""
_HANDLERS_AT_A_TIME = 500
"""Changes of a list that are handed on before other tasks of the loop get their turn."""


class Informer(Generic[T]):
    """A cache of one collection, and a call for each change.

    Args:
        client: of the API server.
        path: of the collection, such as ``/api/v1/pods``.
        decoder: of one object, best to a slim frozen struct.
        on_change: called with the object before and after, see `Store`. Synchronous and quick; what it raises is
            logged and
            counted, and loses only this call.
        on_deleted: called with the JSON of an object whose deletion was watched (not with one that a list misses).
        label_selector, field_selector: as the API has them.
        accept: `PARTIAL_METADATA` for metadata only.
        index: see `Store`.
        page_size: objects per request of a list.
        inactivity_seconds: of silence before a watch counts as dead.
        clock: monotonic seconds.
        sleep: waits so many seconds.
        draw: a random number in [0, 1).

    Attributes:
        synced: set when the first list is complete.
        resource_version: of the newest thing seen, bookmarks included; compare with it to read your own writes.
        last_activity: clock's time when the server was last heard.
        failures: of handlers; 0 in a correct program.
        lists: complete lists so far; more than one means that watching was interrupted for too long.
    """

    def __init__(
        self,
        client: KubeClient,
        path: str,
        decoder: msgspec.json.Decoder[T],
        *,
        on_change: Change[T],
        on_deleted: Callable[[bytes], None] | None = None,
        label_selector: str = "",
        field_selector: str = "",
        accept: str = JSON,
        index: Callable[[T], str | None] | None = None,
        page_size: int = 500,
        inactivity_seconds: float = INACTIVITY_TIMEOUT_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self._client = client
        self._path = path
        self._wire = WireDecoder(decoder)
        self._on_change = on_change
        self._on_deleted = on_deleted
        self._store: Store[T] = Store(self._notify, index and self._indexed)
        self._index = index
        self._selectors = {
            name: value
            for name, value in (("labelSelector", label_selector), ("fieldSelector", field_selector))
            if value
        }
        self._accept = accept
        self._page_size = page_size
        self._inactivity_seconds = inactivity_seconds
        self._clock = clock
        self._sleep = sleep
        self._draw = draw
        self._backoff = Backoff(clock, draw)
        self._must_list = True
        self._in_pages = True
        self._malformed_at: str | None = None
        self._reported: set[str] = set()
        self.synced = asyncio.Event()
        self.resource_version = ""
        self.last_activity = clock()
        self.failures = 0
        self.lists = 0

    @property
    def has_synced(self) -> bool:
        """Whether the cache has been filled once."""
        return self.synced.is_set()

    def __len__(self) -> int:
        return len(self._store)

    def get(self, namespace: str, name: str) -> T | None:
        """The cached object of that name, or None."""
        return self._store.get(namespace, name)

    def by_index(self, namespace: str, value: str) -> Mapping[str, T]:
        """See `Store.by_index`."""
        return self._store.by_index(namespace, value)

    def objects(self) -> list[T]:
        """All cached objects."""
        return list(self._store)

    async def run(self) -> NoReturn:
        """Fills the cache and keeps it current until it is cancelled."""
        while True:
            opened_at = self._clock()
            try:
                if self._must_list:
                    await self._list()
                    opened_at = self._clock()
                delivered = await self._watch()
            except Silent as error:
                # A quiet kind on a fresh server gets no bookmarks either. Nothing says that the server is sick, and
                # the timer
                # itself keeps the rate low.
                _log.info("watch was silent, opening it again", path=self._path, error=str(error))
                delivered = True
            except KubeError as error:
                await self._sleep(self._pause_after(error))
                continue
            if delivered:
                await self._sleep(max(0.0, FLOOR_SECONDS - (self._clock() - opened_at)))
            else:
                await self._sleep(self._backoff.next())

    def _pause_after(self, error: KubeError) -> float:
        """Decides what a failure means for the next attempt and how long to wait before it."""
        if isinstance(error, Gone) or is_from_the_future(error):
            # A continue token that is too old tells that paging is slower than the server's compaction.
            self._in_pages = not self._must_list or not self._in_pages
            self._must_list = True
        elif isinstance(error, MalformedError):
            # Once may be the network; twice at the same place is in the stream itself, and only a list leads around
            # it.
            self._must_list |= self._malformed_at == self.resource_version
            self._malformed_at = self.resource_version
        at_least = error.retry_after_seconds if isinstance(error, ApiStatusError) else None
        delay = self._backoff.next(at_least)
        _log.warning(
            "list or watch failed, trying again",
            path=self._path,
            error=str(error),
            relist=self._must_list,
            delay_seconds=round(delay, 2),
        )
        return delay

    async def _list(self) -> None:
        query = dict(self._selectors)
        if self._in_pages:
            query["limit"] = str(self._page_size)
        accept = PARTIAL_METADATA_LIST if self._accept == PARTIAL_METADATA else self._accept
        items: list[T | Odd] = []
        while True:
            # No resourceVersion: the list must be consistent, not what a lagging server's cache holds.
            body = await self._client.request(
                "GET", self._path, query=query, accept=accept, timeout_seconds=LIST_TIMEOUT_SECONDS
            )
            self._heard()
            page: Page[T] = self._wire.page(body)
            items += page.items
            if not page.token:
                break
            query["continue"] = page.token
        await self._replace(items)
        self.resource_version = page.resource_version
        self._must_list, self._in_pages = False, True
        self._malformed_at = None
        self.lists += 1
        self.synced.set()

    async def _replace(self, items: list[T | Odd]) -> None:
        vanished = set(self._store.keys())
        for place, item in enumerate(items):
            if place % _HANDLERS_AT_A_TIME == _HANDLERS_AT_A_TIME - 1:
                await asyncio.sleep(0)
            vanished.discard(self._key_of(item))
            if isinstance(item, Odd):
                self._odd(item)
            else:
                self._store.listed(item)
        for key in vanished:
            self._store.vanished(key)
        self._store.forget_tombstones()

    async def _watch(self) -> bool:
        """Follows one watch to its orderly end.

        Returns:
            Whether it delivered anything.
        """
        low, high = WATCH_SECONDS
        query = {
            **self._selectors,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self.resource_version,
            "timeoutSeconds": str(low + int(self._draw() * (high - low))),
        }
        delivered = False
        lines = self._client.stream(
            self._path,
            query,
            accept=self._accept,
            inactivity_timeout_seconds=self._inactivity_seconds,
            on_open=self._heard,
        )
        async with aclosing(lines):
            async for line in lines:
                self._heard()
                event = self._wire.event(line)
                if event is not None:
                    delivered = True
                    self._take(event)
        return delivered

    def _take(self, event: Event[T]) -> None:
        found = event.object
        match event.type:
            case EventType.BOOKMARK:
                pass
            case _ if isinstance(found, Odd):
                self._odd(found, deleted=event.type == EventType.DELETED)
            case EventType.ADDED | EventType.MODIFIED if found is not None:
                self._store.seen(found)
            case EventType.DELETED if found is not None:
                if self._store.deleted(found) and self._on_deleted is not None:
                    self._on_deleted(event.raw)
            case unknown:
                self._report(f"type {unknown}", "watch event of unknown type ignored", type=unknown)
        if number(event.resource_version) >= number(self.resource_version):
            self.resource_version = event.resource_version

    def _odd(self, odd: Odd, *, deleted: bool = False) -> None:
        """Leaves out an object that does not decode; what was cached of it stays, for it has not gone."""
        identity = odd.identity
        self._report(
            f"{identity.uid} {odd.reason}",
            "object cannot be read and is left out",
            namespace=identity.namespace,
            name=identity.name,
            error=odd.reason,
        )
        known = self._store.get(identity.namespace, identity.name)
        if known is not None and (deleted or known.metadata.uid != identity.uid):
            self._store.vanished((identity.namespace, identity.name))

    def _key_of(self, item: T | Odd) -> Key:
        meta = item.identity if isinstance(item, Odd) else item.metadata
        return meta.namespace, meta.name

    def _heard(self) -> None:
        self.last_activity = self._clock()

    def _notify(self, old: T | None, new: T | None) -> None:
        try:
            self._on_change(old, new)
        except Exception:  # noqa: BLE001 - the cache is right; one lost call must not end the watch for everybody
            self.failures += 1
            _log.exception("handler failed", path=self._path)

    def _indexed(self, found: T) -> str | None:
        assert self._index is not None
        try:
            return self._index(found)
        except Exception as error:  # noqa: BLE001 - as with handlers
            self.failures += 1
            self._report(f"index {error!r}", "index function failed", name=found.metadata.name, error=repr(error))
            return None

    def _report(self, what: str, message: str, **details: str) -> None:
        """Logs the same thing once, not with each event."""
        if what not in self._reported:
            if len(self._reported) >= 1000:
                self._reported.clear()
            self._reported.add(what)
            _log.warning(message, path=self._path, **details)
