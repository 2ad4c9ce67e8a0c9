"""Follows Frameworks, their rosters and their Events, and has each state written: nothing is dropped but by a row.

The informers put what they see into `Pending`; one task makes rows of it in a thread and writes them in one
transaction. While the database is away it tries again, and of each Framework the newest states wait, as many as memory
allows: which ones were passed over is known by their numbers. What was kept last is taken back only when a transaction
has succeeded, so that a process that dies at any point writes the same again.
"""

import asyncio
import random
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeVar

import msgspec
from sqlalchemy import Engine
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, ProgrammingError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as NoConnectionError
from tenacity import RetryCallState, retry_if_exception_type, retry_if_not_exception_type

from frameworkclient.views.events import EventView, is_about
from frameworkcontroller.api import names
from frameworkcontroller.api.framework import FRAMEWORK_DECODER, Framework
from frameworkhistory.archive.changes import Changes, Known
from frameworkhistory.archive.reader import Reader
from frameworkhistory.archive.writer import Writer
from frameworkhistory.follow import records
from frameworkhistory.follow.pending import BATCH, ConfigMap, Pending, Seen
from frameworkkube.backoff import pause_seconds, retrying
from frameworkkube.errors import ConflictError, InvalidError, KubeError, NotFoundError
from frameworkkube.http.client import INACTIVITY_TIMEOUT_SECONDS, KubeClient
from frameworkkube.informer.informer import Informer
from frameworkkube.informer.store import version_number
from frameworkkube.log import Logger
from frameworkkube.paths import resource_path

_log = Logger(__name__)
EARLY_SECONDS: Final = 60.0
"""For which rows wait for their Framework: its watch may have broken, and that of its Pods and Events not."""
LOOK_SECONDS: Final = 1.0
"""Between two looks for it."""
END_SECONDS: Final = 60.0
"""For which a Framework that is deleted is held, so that the end of its attempt is kept, too."""
AT_WORK: Final = "at-work"
AT_WORK_SECONDS: Final = 10.0
"""Between two marks by which a pause is known afterwards."""
PAUSE_SECONDS: Final = 60.0
"""A pause that is no gap: a Pod was replaced."""
SILENT_SECONDS: Final = 3 * INACTIVITY_TIMEOUT_SECONDS
"""After which the API server has not answered: a watch without changes shows signs of life, or is opened again."""
DELETED_UNSEEN: Final = "its deletion was not seen: the archive was not at work"
POISON: Final = (DataError, IntegrityError, ProgrammingError)
"""What a database raises that does not take what it is told; all else is because it is away, locked, full or broken."""
_IS_AWAY: Final = retry_if_exception_type((DBAPIError, NoConnectionError)) & retry_if_not_exception_type(POISON)
T = TypeVar("T")
K = TypeVar("K", EventView, ConfigMap)


class Follower:
    """Follows the Frameworks of some namespaces, of all if none is named.

    Args:
        client: of the API server.
        engine: of the database, which is open.
        person_label: the label that says whose a Framework is.
        on_kept: called with namespace and UID when a change of a Framework is written.
    """

    def __init__(
        self,
        client: KubeClient,
        engine: Engine,
        namespaces: tuple[str, ...] = (),
        *,
        person_label: str = "",
        on_kept: Callable[[str, str], None] = lambda *_: None,
    ) -> None:
        self._client, self._namespaces = client, namespaces
        self._writer, self._reader = Writer(engine), Reader(engine)
        self._person_label, self._on_kept = person_label, on_kept
        self.pending = Pending()
        self.errors = self.refused = 0
        """Of the database, and Frameworks that it refuses for what they say."""
        self._known: dict[str, Known] = {}
        self._stored: dict[str, str] = {}
        self._was_at_work = self._silent_since = 0.0
        self._existing: set[str] = set()
        self._went_back: set[str] = set()
        self._writing_since: float | None = None
        self._held: OrderedDict[str, dict[str, Framework]] = OrderedDict()
        """By namespace and UID. Namespaces take turns: one has thousands that are deleted at once."""
        self._ending: dict[str, Framework] = {}
        self._release_wake = asyncio.Event()
        places: tuple[str | None, ...] = namespaces or (None,)
        paths = [resource_path(names.API_VERSION, names.PLURAL, namespace=one) for one in places]
        self._frameworks = [Informer(client, one, FRAMEWORK_DECODER, on_change=self._on_framework) for one in paths]
        self._others = [other for one in places for other in self._other_informers(one)]

    def _other_informers(self, namespace: str | None) -> Iterator[Informer[Any]]:
        def informer(plural: str, kind: type[K], see: Callable[[K], None], **selectors: Any) -> Informer[K]:
            def on_change(_: K | None, found: K | None) -> None:
                if found is not None:
                    see(found)
                    made.replace(kind(found.metadata))  # it is read once

            path = resource_path("v1", plural, namespace=namespace)
            decoder = msgspec.json.Decoder(kind)
            made: Informer[K] = Informer(self._client, path, decoder, on_change=on_change, **selectors)
            return made

        for selector in (f"involvedObject.kind={names.KIND}", "involvedObject.kind=Pod,type=Warning"):
            yield informer("events", EventView, self._on_event, field_selector=selector)
        own: Any = {"label_selector": names.FRAMEWORK_NAME, "keep": ConfigMap.slim}
        yield informer("configmaps", ConfigMap, self._on_config_map, **own)

    # --- what others ask ---------------------------------------------------------------------------------------------

    @property
    def has_synced(self) -> bool:
        """Whether all that there is was seen once."""
        return all(one.has_synced for one in (*self._frameworks, *self._others))

    @property
    def followed(self) -> int:
        """The number of Frameworks that exist."""
        return sum(len(one) for one in self._frameworks)

    @property
    def seconds_behind(self) -> float:
        """For how long the oldest of what waits has waited."""
        since = self._writing_since or self.pending.since
        return time.time() - since if since else 0.0

    def current(self, namespace: str, name: str) -> Framework | None:
        """Return the Framework of this name as it is now."""
        found = (one.get(namespace, name) for one in self._frameworks)
        return next((one for one in found if one is not None), None)

    async def save(self, rows: Changes) -> bool:
        """Write rows after the Framework that they are of, and report whether there is one."""
        written: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.pending.add_rows(Seen(time.time(), rows=rows, written=written))
        return await written

    async def run(self) -> None:
        """Follow until cancelled.

        Raises:
            EtcdRestoredError: Start again with empty caches.
        """
        self._was_at_work = await self._insist(self._note_pause)
        self._stored = await self._insist(partial(self._reader.existing, self._namespaces))
        parts: list[Coroutine[Any, Any, None]] = [
            *(one.run() for one in self._frameworks),
            *(self._run_later(one) for one in self._others),
            self._look_always(),
            self._write_always(),
            self._release_always(),
            self._end_those_gone(),
            self._mark_always(),
        ]
        async with asyncio.TaskGroup() as group:
            for part in parts:
                group.create_task(part)

    async def _have_synced(self) -> None:
        """Wait until all Frameworks were seen once."""
        for one in self._frameworks:
            await one.synced.wait()

    async def _run_later(self, other: Informer[Any]) -> None:
        """Follow what belongs to Frameworks once these are known."""
        await self._have_synced()
        await other.run()

    # --- what the informers see --------------------------------------------------------------------------------------

    def _on_framework(self, before: Framework | None, after: Framework | None) -> None:
        if after is not None:
            uid, version = after.metadata.uid, after.metadata.resource_version
            stored = self._stored.get(uid, "")
            self._existing.add(uid)
            if stored == version:
                self._hold(after)  # written before a restart; what remains is to let go of it
                return
            if version_number(version) < version_number(stored):
                self._went_back.add(uid)
            self.pending.add(after, is_gone=False)
        elif before is not None:
            self._existing.discard(before.metadata.uid)
            self.pending.add(before, is_gone=True)

    def _on_event(self, event: EventView) -> None:
        about, uid = event.involved_object, ""
        if about.kind == names.KIND:
            uid = about.uid
        else:
            # A Framework's name has no hyphen; one of the same name may have been there before.
            framework = self.current(event.metadata.namespace, about.name.partition("-")[0])
            if framework is not None and is_about(event, framework.metadata.name):
                created = framework.metadata.creation_timestamp
                uid = framework.metadata.uid if created is None or created <= event.time else ""
        if uid:
            rows = Changes(uid, event.metadata.namespace, events=[records.event(event)])
            self.pending.add_rows(Seen(time.time(), rows=rows))

    def _on_config_map(self, found: ConfigMap) -> None:
        if names.ROSTER_ANNOTATION in found.metadata.annotations:
            self.pending.add_roster(found)

    # --- what is written ---------------------------------------------------------------------------------------------

    async def _insist(self, work: Callable[[], T]) -> T:
        """Do something in a thread, again and again while the database is away or full."""
        found: T = await retrying(retry=_IS_AWAY, before_sleep=self._count_error)(asyncio.to_thread, work)
        return found

    def _count_error(self, state: RetryCallState) -> None:
        self.errors += 1
        error = state.outcome and state.outcome.exception()
        _log.warning("the database does not do its work, and is asked again", error=str(error)[:500])

    def _note_pause(self) -> float:
        """Return until when the archive was at work before, and keep as a gap that it was not since."""
        last, now = float(self._reader.mark(AT_WORK) or 0.0), time.time()
        if last and now - last > PAUSE_SECONDS:
            self._writer.gap(last, now, "the archive was not at work: Events that have expired since are missing")
        return last

    async def _mark_always(self) -> None:
        """Remember that the archive is at work, and keep as a gap that the API server has not answered."""
        while True:
            await asyncio.sleep(AT_WORK_SECONDS)
            silent = time.monotonic() - min(one.last_activity for one in (*self._frameworks, *self._others))
            if self.has_synced and silent < SILENT_SECONDS:
                if self._silent_since:
                    what = "the API server did not answer: Events that have expired meanwhile are missing"
                    await self._insist(partial(self._writer.gap, self._silent_since, time.time(), what))
                self._silent_since = 0.0
                if not self.seconds_behind:
                    with suppress(SQLAlchemyError):
                        await asyncio.to_thread(self._writer.mark, AT_WORK, str(time.time()))
            elif self.has_synced and not self._silent_since:
                self._silent_since = time.time() - silent

    async def _end_those_gone(self) -> None:
        """Write of those that were known and do not exist any more that nobody saw them go."""
        await self._have_synced()
        gone = [uid for uid in self._stored if uid not in self._existing]
        self._stored = {}
        for start in range(0, len(gone), BATCH):
            end = {"deleted": time.time(), "gap": DELETED_UNSEEN}
            await self._insist(partial(self._writer.change, gone[start : start + BATCH], **end))

    async def _write_always(self) -> None:
        await self._have_synced()
        if self._went_back:
            # A list is newer than all before it, unless etcd was restored from a backup: then it is what is true now.
            await self._insist(partial(self._writer.change, self._went_back, version=""))
        while True:
            await self.pending.wake.wait()
            self.pending.wake.clear()
            while self.pending:
                self._writing_since = self.pending.since
                await self._write(self.pending.take())
                self._writing_since = None
            if number := self.pending.passed_over:
                what = f"{number} states and Events were not kept: the database was away, or did not take them"
                self.pending.passed_over = 0
                await self._insist(partial(self._writer.gap, self.pending.passed_over_since, time.time(), what))

    async def _write(self, batch: list[Seen]) -> None:
        """Write what was seen; what the database refuses for what it says is told, and left out."""
        try:
            known, unknown = await self._insist(lambda: self._write_now(batch))
        except Exception as error:  # noqa: BLE001 -- whatever one says must not keep the others out
            if len(batch) > 1:
                for one in batch:
                    await self._write([one])
                return
            self.refused += 1
            _log.error("a state cannot be kept", subject=batch[0].subject, error=str(error)[:500])
            self.pending.pass_over(batch[0])
            batch[0].settle()
            return
        for seen in batch:
            if seen.config_map is not None or seen.rows is None or seen.rows.uid not in unknown:
                seen.settle()  # a roster would wait as megabytes, and comes long after its Framework
            elif time.time() - seen.time < EARLY_SECONDS:
                self.pending.add_early(seen)
            else:
                seen.settle(is_known=False)
            if (state := seen.state) is None:
                continue
            uid = state.metadata.uid
            # What is over changes no more: should it, its rows are read again.
            if known[uid].is_over:
                self._known.pop(uid, None)
            else:
                self._known[uid] = known[uid]
            if not seen.is_gone:
                self._hold(state)
            self._on_kept(state.metadata.namespace, uid)

    async def _look_always(self) -> None:
        """Have rows written whose Framework was not seen before them."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            for seen in self.pending.take_early(self._existing, time.time() - EARLY_SECONDS):
                if seen.rows is not None and seen.rows.uid in self._existing:
                    self.pending.add_rows(seen)
                else:
                    seen.settle(is_known=False)

    def _write_now(self, batch: list[Seen]) -> tuple[dict[str, Known], set[str]]:
        """Return what is known of the Frameworks now, and the UIDs of those that are not known."""
        known: dict[str, Known] = {}
        made: list[Changes] = []
        for seen in batch:
            if seen.config_map is not None:
                seen.rows = seen.config_map.rows()
            if (state := seen.state) is None:
                made += [] if seen.rows is None else [seen.rows]
                continue
            uid = state.metadata.uid
            before = known.get(uid) or self._known.get(uid) or self._reader.known(uid, self._was_at_work)
            changes, known[uid] = records.changes(
                state, before, time.time(), person_label=self._person_label, is_gone=seen.is_gone
            )
            made.append(changes)
        return known, self._writer.apply(made)

    # --- finalizers --------------------------------------------------------------------------------------------------

    def _hold(self, state: Framework) -> None:
        """Note a Framework that waits for its last state: this one, if its attempt is over, or time is up."""
        uid = state.metadata.uid
        if state.metadata.deletion_timestamp is None or not state.is_held:
            return
        is_first = uid not in self._ending
        self._ending[uid] = state
        if uid in self._held.get(state.metadata.namespace, {}) or records.has_ended(state):
            self._hold_no_longer(uid)
        elif is_first:
            asyncio.get_running_loop().call_later(END_SECONDS, self._hold_no_longer, uid)

    def _hold_no_longer(self, uid: str) -> None:
        if (state := self._ending.pop(uid, None)) is not None:
            self._held.setdefault(state.metadata.namespace, {})[uid] = state
            self._release_wake.set()

    async def _release_always(self) -> None:
        """Let go of Frameworks whose last state is kept."""
        failures = 0
        while True:
            await self._release_wake.wait()
            self._release_wake.clear()
            while self._held:
                # One that is refused comes again after all others.
                namespace, own = self._held.popitem(last=False)
                state = own.pop(next(iter(own)))
                if own:
                    self._held[namespace] = own
                try:
                    await self._release(state)
                    failures = 0
                except (ConflictError, InvalidError, NotFoundError):
                    pass  # it has changed, and is seen again
                except KubeError as error:
                    _log.warning("a Framework is held for longer", name=state.metadata.name, error=str(error))
                    self._held.setdefault(namespace, {}).setdefault(state.metadata.uid, state)
                    await asyncio.sleep(pause_seconds(failures, random.random))
                    failures += 1

    async def _release(self, state: Framework) -> None:
        meta = state.metadata
        path = resource_path(names.API_VERSION, names.PLURAL, namespace=meta.namespace, name=meta.name)
        patch = {
            "uid": meta.uid,
            "resourceVersion": meta.resource_version,
            "finalizers": msgspec.Raw(state.changed_finalizers),
        }
        await self._client.patch(path, msgspec.json.encode({"metadata": patch}))
