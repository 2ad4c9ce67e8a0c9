"""The process: builds the parts, runs them until SIGTERM, and answers for its health from the start."""

import asyncio
import contextlib
import os
import secrets
import signal
from collections.abc import AsyncGenerator, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from typing import Final

import structlog
import tenacity
from aiohttp import web
from aiohttp.typedefs import Handler
from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from sqlalchemy.exc import SQLAlchemyError

from frameworkclient.access import DEFAULT_NAMESPACE, Access
from frameworkclient.aio import AsyncClient
from frameworkclient.logs.collector import read_logs
from frameworkhistory.archive.database import Database
from frameworkhistory.archive.reader import Reader
from frameworkhistory.archive.retention import Retention
from frameworkhistory.follow.follower import Follower
from frameworkhistory.logs import kept
from frameworkhistory.logs.collector import Collector, Limits
from frameworkhistory.logs.storage import Storage
from frameworkhistory.page import actions
from frameworkhistory.page.app import make_app
from frameworkhistory.page.feed import Feed
from frameworkhistory.page.people import People
from frameworkhistory.page.site import Site
from frameworkhistory.settings import Settings
from frameworkkube.backoff import retrying
from frameworkkube.http.client import KubeClient
from frameworkkube.http.credentials import Endpoint
from frameworkkube.serving.health import HealthServer
from frameworkkube.serving.listener import Listener
from frameworkkube.serving.places import ConnectionLimits

_log = structlog.get_logger(__name__)
LOG_SECONDS: Final = 60.0  # between two looks for too many logs
LOOKS: Final = 10  # of them for one at what is old
STOP_SECONDS: Final = 5.0
THREADS: Final = 32
"""A database that does not answer keeps each for seconds, and others have logs to compress meanwhile."""
LOOPBACK: Final = "127.0.0.1"
KEY: Final = "FRAMEWORKHISTORY_KEY"
"""The variable with the key of the one person of a local page; without it there is a new one for each process."""
# The controller asks about each Framework whose Pods have ended, from one address.
INTERNAL: Final = ConnectionLimits(connections=512, of_one_source=448, waiting=0, grace_seconds=0, own_grace_seconds=0)
# Behind an Ingress or a proxy all people come from one address; a page that follows keeps a connection open.
PAGES: Final = ConnectionLimits(connections=1024, of_one_source=1024, waiting=256, stalled_seconds=3600)


async def serve(settings: Settings, endpoint: Endpoint) -> None:
    """Keep and show what runs until SIGTERM or SIGINT.

    Raises:
        NewerSchemaError: A newer version has written the database.
        EtcdRestoredError: What is cached may never have happened: the process must start again.
    """
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(THREADS))
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    try:
        async with asyncio.TaskGroup() as group:
            working = group.create_task(History(settings, endpoint).run())
            await stopping.wait()
            _log.info("stopping")
            working.cancel()
    except BaseExceptionGroup as errors:
        first: BaseException = errors
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        raise first from None


@contextlib.asynccontextmanager
async def listening(
    app: web.Application, host: str | None, port: int, limits: ConnectionLimits
) -> AsyncGenerator[int, None]:
    """Serve an application within limits on connections until the block ends, on the port that is returned."""

    @web.middleware
    async def note(request: web.Request, handler: Handler) -> web.StreamResponse:
        # A connection that nobody notes to have brought a request is cut as one that is silent.
        with listener.request(request):
            return await handler(request)

    app.middlewares.insert(0, note)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=STOP_SECONDS)
    await runner.setup()
    assert runner.server is not None
    listener = Listener(runner.server, limits)
    try:
        yield listener.start(host, port)
    finally:
        listener.close()
        await runner.cleanup()
        listener.abort()


class History:
    """All parts of the program; created inside a running event loop."""

    def __init__(self, settings: Settings, endpoint: Endpoint) -> None:
        self._settings = settings
        self._kube = KubeClient(endpoint, user_agent="frameworkhistory", max_connections=64)
        self._client = AsyncClient(found=Access(endpoint, DEFAULT_NAMESPACE))
        namespaces = tuple(dict.fromkeys(settings.namespace))
        # Pages that are slow take no connection from the writer.
        self._database, self._reading = Database(settings.database), Database(settings.database)
        self._reader = Reader(self._reading.engine)
        self._feed, self._storage = Feed(), Storage(settings.logs)
        self._follower = Follower(
            self._kube, self._database.engine, namespaces, person_label=settings.user_label, on_kept=self._feed.publish
        )
        # A pause that the API server asks for because of logs holds up nothing else.
        self._logs_kube = KubeClient(endpoint, user_agent="frameworkhistory-logs", max_connections=64)
        self._collector = Collector(
            self._logs_kube,
            None if settings.log_link else self._storage,
            self._follower.save,
            self._stored,
            Limits(log_bytes=settings.log_bytes),
            namespaces,
        )
        self._is_open = False
        more = {kept.PATH: kept.kept_handler(None if settings.log_link else self._collector)}
        self._health = HealthServer(str, self.not_ready, lambda: generate_latest(self), INTERNAL, more=more)

    async def _stored(self, framework: str, pod: str) -> set[tuple[str, int]]:
        rows = await asyncio.to_thread(self._reader.pod_logs, framework, pod)
        return {(row["container"], row["restart"]) for row in rows}

    def not_ready(self) -> list[str]:
        """Return why there is nothing to show yet, one clause each."""
        if not self._is_open:
            return ["the database does not answer"]
        return [] if self._follower.has_synced else ["the API server has not answered yet"]

    async def run(self) -> None:
        """Run all parts until cancelled."""
        settings = self._settings
        host = LOOPBACK if settings.local else None
        await self._health.start(host, settings.internal_port)
        try:
            await self._open()
            key = (os.environ.get(KEY) or secrets.token_urlsafe(24)) if settings.local else ""
            app = self._page(key)
            async with listening(app, host, settings.port, PAGES) as port, asyncio.TaskGroup() as group:
                link = {"open": f"http://{LOOPBACK}:{port}/signin?key={key}"} if key else {}
                _log.info("serving", port=port, **link)
                group.create_task(self._follower.run())
                group.create_task(self._drop_always())
                group.create_task(self._collector.run())
        finally:
            await self._health.stop()
            await self._client.close()
            await self._kube.close()
            await self._logs_kube.close()
            self._database.close()
            self._reading.close()

    async def _open(self) -> None:
        def note(state: tenacity.RetryCallState) -> None:
            error = state.outcome and state.outcome.exception()
            _log.warning("the database does not answer, and is asked again", error=str(error)[:500])

        again = retrying(retry=tenacity.retry_if_exception_type(SQLAlchemyError), before_sleep=note)
        await again(asyncio.to_thread, self._database.open)
        self._is_open = True

    def _page(self, key: str) -> web.Application:
        settings = self._settings
        people = People(self._kube, password_file=settings.proxy_password_file, key=key)
        # Not by the client that follows and asks for rights: a kubelet that is away would hold up both.
        log, seen = partial(read_logs, self._client.kube), self._follower.current
        site = Site(self._reader, people, seen, self._collector.pods, log, self._storage, self._feed, settings.log_link)
        site.has_actions = settings.actions
        app = make_app(site)
        if settings.actions:
            actions.setup(app, people, self._client, site.render)
        return app

    async def _drop_always(self) -> None:
        """Drop what is old, and its logs before: of a log that nobody knows nobody would delete it."""
        settings = self._settings
        days, size, log_size = settings.retention_days, settings.retention_bytes, settings.retention_log_bytes
        retention = Retention(self._database.engine, days or None, size or None, log_size or None)
        is_full = False
        for look in count(1):
            await asyncio.sleep(LOG_SECONDS)
            try:
                while logs := await asyncio.to_thread(retention.logs):
                    await self._storage.delete([row["key"] for row in logs])
                    await asyncio.to_thread(retention.forget, logs)
                if look % LOOKS and not is_full:
                    continue
                while (due := await asyncio.to_thread(retention.due)) is not None:
                    frameworks, keys = due
                    await self._storage.delete(keys)
                    await self._storage.delete(await asyncio.to_thread(retention.drop, frameworks, keys))
                is_full = await asyncio.to_thread(retention.shorten)
                await asyncio.to_thread(retention.tidy)
            except Exception as error:  # noqa: BLE001 -- of a database or a storage that is away: later is as good
                _log.warning("what is old is not dropped yet", error=str(error)[:500])

    def collect(self) -> Iterator[Metric]:
        """Yield what `/metrics` shows."""
        gauge, counter, follower, logs = GaugeMetricFamily, CounterMetricFamily, self._follower, self._collector
        errors = "Writes that the database has refused, and were tried again."
        for kind, name, text, value in (
            (gauge, "frameworks_followed", "Frameworks that exist.", follower.followed),
            (gauge, "pending_changes", "What was seen and is not written yet.", len(follower.pending)),
            (gauge, "seconds_behind", "For how long the oldest of it has waited.", follower.seconds_behind),
            (counter, "database_errors", errors, follower.errors),
            (counter, "states_refused", "States that the database refuses for what they say.", follower.refused),
            (counter, "log_bytes", "Read from the API server.", logs.reader.bytes),
        ):
            yield kind(f"frameworkhistory_{name}", text, value)
        family = counter("frameworkhistory_logs", "Logs by what is kept of them.", labels=["outcome"])
        family.add_metric(["kept"], logs.stored)
        family.add_metric(["gap"], logs.gaps)
        yield family
