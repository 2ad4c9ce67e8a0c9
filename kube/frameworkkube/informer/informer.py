"""A cache of one collection: list, then watch, and recover from every fault of server, network or proxy.

A program makes one `Informer` per kind with a handler, runs `run()` as a task, waits for `synced` and then reads with
`get`. The promise: the cache follows the API server; the handler is called once per change, after the cache shows it,
and an object that was deleted and created again under the same name is two changes. The handler's failures, objects
that do not decode, and faults of the server never end `run`.

One thing ends `run`: versions that went back, because etcd was restored from a backup. The API server then serves a
watch from the last known version as if nothing were new, and whatever its client knows may never have happened.

The rules and their sources: bookmarks, a random server timeout and a new list on 410 are those of client-go's
reflector; the inactivity timer is kopf's (a half-open connection is silent, a live one shows a bookmark about each
minute); the comparison by UID is ours.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from enum import Enum, auto
from typing import Generic, NoReturn, TypeAlias, TypeVar

import msgspec

from frameworkkube.backoff import CEILING_SECONDS, FLOOR_SECONDS, Backoff
from frameworkkube.errors import (
    ApiStatusError,
    EtcdRestoredError,
    InactivityTimeoutError,
    KubeError,
    RequestTimeoutError,
    is_unknown_version,
)
from frameworkkube.http.client import (
    INACTIVITY_TIMEOUT_SECONDS,
    JSON,
    PARTIAL_METADATA_LIST,
    REQUEST_TIMEOUT_SECONDS,
    KubeClient,
)
from frameworkkube.informer.contents import Contents, key_of
from frameworkkube.informer.lists import LIST_TIMEOUT_SECONDS, REFUSALS, STREAM, Lists, NotStreamedError, Pager, Way
from frameworkkube.informer.store import Change, HasMetadata, ObjectKey, version_number
from frameworkkube.informer.watch_events import (
    Event,
    EventType,
    MalformedError,
    UndecodableObject,
    WireDecoder,
    decoded,
)
from frameworkkube.log import Logger

_log = Logger(__name__)

T = TypeVar("T", bound=HasMetadata)
WATCH_SECONDS = (300, 600)
"""The server ends a watch after a random time in this range, so that watches spread over its replicas."""
_RESUME_SECONDS = 2.0
"""A watch that showed something new and ended in order is resumed within this time, or else counts as interrupted. No
etcd is restored so quickly."""
_RESUMPTION_FLOOR_SECONDS = 0.05
_SHORT_WATCHES = 30
"""So many watches in a row that end quickly and show few changes are resumed at once; then the pauses grow."""
_BURST = 10
"""A watch that showed as many objects was ended by a burst: it is the least buffer that an API server gives a watch."""
_HANDLING_SECONDS = 0.01
"""So long the changes of a list are handled before other tasks of the loop get their turn."""


class _End(Enum):
    """Why a list or a watch has ended, which says how the next watch begins."""

    LISTED = auto()
    """Everything is listed."""
    IN_ORDER = auto()
    """A watch has shown something new, or lived for minutes: it is resumed without a question, or too late."""
    INTERRUPTED = auto()
    """Anything may have happened since: the server is asked first whether it has fallen behind."""


_Ended: TypeAlias = tuple[_End, float]
"""The reason, and how many seconds to wait before what comes next."""


class Informer(Generic[T]):
    """A cache of one collection, and a call for each change.

    Args:
        path: of the collection, such as `/api/v1/pods`.
        decoder: of one object, preferably to a slim frozen struct.
        on_change: called with the object before and after, see `Store`. It must be quick; what it raises is logged and
            counted, and loses only this call.
        on_deleted: called after that with what was kept of an object that is gone, and with its last JSON; None if its
            deletion was not watched, since a list misses it or another object has its name.
        keep: makes of an object what the cache keeps of it, with the same identity; all of it by default.
        on_undecodable: called once for each object that does not decode, and again if the reason changes.
        keeps_last: whether of such an object the last state that did decode counts, since it still exists, or it counts
            as gone.
        field_selector: as the API has it, such as `metadata.name=web-0`.
        accept: `PARTIAL_METADATA` for metadata only.
        page_size: objects per request of a list at most; large objects come in smaller pages, see `PageSize`.
        streamed: whether to list in one stream where the server can do it, see `Lists`.
        inactivity_seconds: of silence before a watch counts as dead.
        clock: monotonic seconds.

    Attributes:
        synced: set when the first list is complete.
        resource_version: the newest that was seen, bookmarks included; compare with it to read your own writes.
        last_activity: when the server last sent anything, in the clock's time.
        lists: complete lists so far; more than one means that a watch was interrupted for too long.
    """

    def __init__(
        self,
        client: KubeClient,
        path: str,
        decoder: msgspec.json.Decoder[T],
        *,
        on_change: Change[T],
        keep: Callable[[T], T] | None = None,
        on_deleted: Callable[[T, bytes | None], None] | None = None,
        on_undecodable: Callable[[UndecodableObject], None] | None = None,
        keeps_last: bool = True,
        label_selector: str = "",
        field_selector: str = "",
        accept: str = JSON,
        page_size: int = 500,
        streamed: bool = True,
        inactivity_seconds: float = INACTIVITY_TIMEOUT_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self._client = client
        self._path = path
        self._wire = WireDecoder(decoder)
        self._contents = Contents(path, on_change, keep, on_deleted, on_undecodable, keeps_last=keeps_last)
        selectors = {"labelSelector": label_selector, "fieldSelector": field_selector}
        self._selector = {name: selector for name, selector in selectors.items() if selector}
        self._accept = accept
        self._pager = Pager(client, path, self._wire, self._selector, accept, page_size)
        self._lists = Lists(streamed=streamed)
        self._inactivity_seconds = inactivity_seconds
        self._clock = clock
        self._sleep = sleep
        self._draw = draw
        self._backoff = Backoff(clock, draw)
        self._must_list = True
        self._opened = False
        self._malformed_at: str | None = None
        self._short = 0
        self.synced = asyncio.Event()
        self.resource_version = ""
        self.last_activity = clock()
        self.lists = 0

    @property
    def has_synced(self) -> bool:
        """Whether the cache has been filled once."""
        return self.synced.is_set()

    @property
    def failures(self) -> int:
        """How many calls of handlers have failed; 0 in a correct program."""
        return self._contents.failures

    @property
    def undecodable(self) -> Mapping[ObjectKey, UndecodableObject]:
        """The objects that exist and do not decode; the cache has their last state that did, or nothing."""
        return self._contents.undecodable

    def __len__(self) -> int:
        return len(self._contents.store)

    def get(self, namespace: str, name: str) -> T | None:
        """Return the cached object of that name, or None."""
        return self._contents.store.get(namespace, name)

    def replace(self, same: T) -> None:
        """Keep another form of the cached object, unless that is another state of it; `on_change` is not called."""
        self._contents.store.replace(same)

    async def run(self) -> NoReturn:
        """Fill the cache and keep it current until cancelled.

        Raises:
            EtcdRestoredError: Start again with empty caches.
        """
        end = _End.LISTED
        while True:
            try:
                end, pause = await (self._fill() if self._must_list else self._follow(end))
            except EtcdRestoredError:
                raise
            except KubeError as error:
                end, pause = self._end_by(error, end)
            if pause:
                await self._sleep(pause)

    async def _fill(self) -> _Ended:
        """List everything; what is listed in a stream is followed in it, too."""
        if self._lists.way is not Way.STREAMED:
            await self._list()
            return _End.LISTED, 0.0
        if self.resource_version:
            # A stream shows objects before it says which version they are of.
            await self._check_version()
        return await self._watch(LIST_TIMEOUT_SECONDS)

    async def _follow(self, before: _End) -> _Ended:
        """Watch from the version at which the list or watch before has ended."""
        if before is _End.INTERRUPTED:
            await self._check_version()
        return await self._watch(_RESUME_SECONDS if before is _End.IN_ORDER else REQUEST_TIMEOUT_SECONDS)

    def _end_in_order(self, shown: int, lived: float, *, progressed: bool) -> _Ended:
        """Say how to go on after a watch that the server has ended.

        An API server ends the watches that it cannot serve quickly enough, many times a second in a burst, and one that
        restarts ends its watches before their time. `lived` is in seconds.
        """
        self._short = self._short + 1 if lived < FLOOR_SECONDS and shown < _BURST else 0
        if not shown and lived < CEILING_SECONDS:
            return _End.INTERRUPTED, self._backoff.next()
        quick = _RESUMPTION_FLOOR_SECONDS * 2.0 ** min(10, max(0, self._short - _SHORT_WATCHES))
        pause = min(quick, FLOOR_SECONDS) if progressed else FLOOR_SECONDS
        end = _End.IN_ORDER if progressed or lived >= WATCH_SECONDS[0] else _End.INTERRUPTED
        return end, max(0.0, pause - lived)

    def _end_by(self, error: KubeError, before: _End) -> _Ended:
        """Decide whether the next attempt lists, and how long to wait before it.

        The pause is part of this state machine, which also forgets failures after healthy minutes: hence `Backoff`.
        """
        match error:
            case NotStreamedError():
                return _End.INTERRUPTED, 0.0
            case InactivityTimeoutError():
                # A kind without changes on a fresh server gets no bookmarks either. Nothing indicates a fault of the
                # server, and the timer itself keeps the rate low.
                _log.info("the watch was silent, opening it again", path=self._path, error=str(error))
                return _End.INTERRUPTED, 0.0
            case RequestTimeoutError() if before is _End.IN_ORDER:
                # Nothing has failed: it is only too late to go on without a question.
                return _End.INTERRUPTED, 0.0
            case MalformedError():
                # Once may be the network. Twice at the same place is the stream itself, and only a list gets past it.
                self._must_list |= self._malformed_at == self.resource_version
                self._malformed_at = self.resource_version
            case _:
                self._must_list |= is_unknown_version(error)
        delay = self._backoff.next(error.retry_after_seconds if isinstance(error, ApiStatusError) else None)
        _log.warning(
            "list or watch failed, will be tried again",
            path=self._path,
            error=str(error),
            relist=self._must_list,
            delay_seconds=round(delay, 2),
        )
        return _End.INTERRUPTED, delay

    async def _check_version(self) -> None:
        """Make sure that the server has not fallen behind what this informer has seen; a list of one object says so."""
        body = await self._client.request(
            "GET",
            self._path,
            query=self._selector | {"limit": "1"},
            accept=PARTIAL_METADATA_LIST,
            timeout_seconds=LIST_TIMEOUT_SECONDS,
        )
        self._record_activity()
        self._require_progress((await decoded(self._wire.page, body)).resource_version)

    def _require_progress(self, version: str) -> None:
        # Every list here is consistent: its version is at least any that the server has shown.
        if version_number(version) < version_number(self.resource_version):
            raise EtcdRestoredError(
                f"GET {self._path}: resourceVersions went back from {self.resource_version} to {version}: "
                "etcd was restored from a backup"
            )

    async def _list(self) -> None:
        """List everything, and take over each page before the next is asked for: only one is held at a time."""
        vanished = self._contents.keys()
        token = ""
        while True:
            try:
                page = await self._pager.read(token, whole=self._lists.way is Way.WHOLE)
            except KubeError as error:
                self._lists.failed(error)
                raise
            self._record_activity()
            self._require_progress(page.resource_version)
            await self._take_over(page.items, vanished)
            token = page.token
            if not token:
                break
        self._complete(vanished, page.resource_version)

    async def _take_over(self, items: list[T | UndecodableObject], vanished: set[ObjectKey]) -> None:
        since = time.perf_counter()
        for item in items:
            if time.perf_counter() - since > _HANDLING_SECONDS:
                await asyncio.sleep(0)
                since = time.perf_counter()
            vanished.discard(key_of(item))
            self._contents.listed(item)

    def _complete(self, vanished: set[ObjectKey], version: str) -> None:
        """End a list that has shown everything but these, at this version."""
        self._contents.end_list(vanished)
        self.resource_version = version
        self._must_list = False
        self._malformed_at = None
        self._lists.complete()
        self.lists += 1
        self.synced.set()

    async def _watch(self, open_seconds: float) -> _Ended:
        """Follow one watch, open within so many seconds, to its orderly end; it begins with a list, if one is due.

        Raises:
            NotStreamedError: A list is due, and the server has to be asked for it in another way.
        """
        begun, version = self._clock(), self.resource_version
        self._opened = False
        vanished = self._contents.keys() if self._must_list else None
        shown = 0
        lines = self._client.stream(
            self._path,
            self._watch_query(),
            accept=self._accept,
            connect_timeout_seconds=open_seconds,
            inactivity_timeout_seconds=self._inactivity_seconds,
            on_open=self._on_open,
        )
        try:
            async with aclosing(lines):
                async for line in lines:
                    self._record_activity()
                    # A trip to a thread for each large line would take one turn of a busy loop each.
                    event = self._wire.quick(line)
                    if event is None:
                        event = await decoded(self._wire.event, line)
                        # It may have taken long: others have their turn before the next one.
                        await asyncio.sleep(0)
                    if event is None:
                        continue
                    shown += event.type != EventType.BOOKMARK
                    if vanished is not None:
                        vanished = self._apply_of_list(event, vanished)
                    else:
                        self._contents.apply(event)
                        if version_number(event.resource_version) >= version_number(self.resource_version):
                            self.resource_version = event.resource_version
        except ApiStatusError as error:
            if vanished is not None and not self._opened and error.code in REFUSALS:
                self._lists.refused()
                raise NotStreamedError(str(error)) from error
            raise
        finally:
            if self._must_list and self._lists.way is Way.STREAMED:
                self._lists.broke_off(opened=self._opened)
        progressed = version_number(self.resource_version) > version_number(version)
        return self._end_in_order(shown, self._clock() - begun, progressed=progressed)

    def _watch_query(self) -> dict[str, str]:
        low, high = WATCH_SECONDS
        return {
            **self._selector,
            "watch": "true",
            "allowWatchBookmarks": "true",
            **(STREAM if self._must_list else {"resourceVersion": self.resource_version}),
            "timeoutSeconds": str(low + int(self._draw() * (high - low))),
        }

    def _apply_of_list(self, event: Event[T], vanished: set[ObjectKey]) -> set[ObjectKey] | None:
        """Apply an event of a streamed list; return what it has not shown yet, None at its end."""
        if event.type == EventType.BOOKMARK:
            if not event.ends_list:
                self._lists.refused()
                raise NotStreamedError("the server sends bookmarks before all objects")
            self._require_progress(event.resource_version)
            self._complete(vanished, event.resource_version)
            return None
        if event.object is not None and event.type != EventType.DELETED:
            vanished.discard(key_of(event.object))
        self._contents.apply(event)
        return vanished

    def _on_open(self) -> None:
        self._opened = True
        self._record_activity()

    def _record_activity(self) -> None:
        self.last_activity = self._clock()
