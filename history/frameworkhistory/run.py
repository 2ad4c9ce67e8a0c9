"""The process: builds the parts, runs them until SIGTERM, and answers for its health from the start."""

import asyncio
import contextlib
import os
import random
import secrets
import signal
from collections.abc import AsyncGenerator, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from typing import Final

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector as Collects
from sqlalchemy.exc import SQLAlchemyError

from frameworkclient.access import DEFAULT_NAMESPACE, Access
from frameworkclient.aio import AsyncClient
from frameworkclient.logs.collector import read_logs
from frameworkclient.views.framework import FrameworkView
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
from frameworkkube.backoff import pause_seconds
from frameworkkube.http.client import KubeClient
from frameworkkube.http.credentials import Endpoint
from frameworkkube.serving.health import HealthServer
from frameworkkube.serving.listener import ConnectionLimits, Listener

_log = structlog.get_logger(__name__)
RETENTION_SECONDS: Final = 600.0
"""Between two looks for what is old."""
STOP_SECONDS: Final = 5.0
THREADS: Final = 32
"""A database that does not answer keeps each for seconds, and others have logs to compress meanwhile."""
LOOPBACK: Final = "127.0.0.1"
KEY: Final = "FRAMEWORKHISTORY_KEY"
"""The variable with the key of the one person of a local page; without it there is a new one for each process."""
# The controller asks about each Framework whose Pods have ended, from one address.
INTERNAL: Final = ConnectionLimits(connections=512, of_one_source=448, waiting=0, grace_seconds=0)
# Behind an Ingress or a proxy all people come from one address; a page that follows keeps a connection open.
PAGES: Final = ConnectionLimits(connections=1024, of_one_source=1024, waiting=256, waiting_of_one_source=256)


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
    history = History(settings, endpoint)
    working = asyncio.create_task(history.run())
    waiting = asyncio.create_task(stopping.wait())
    await asyncio.wait([working, waiting], return_when=asyncio.FIRST_COMPLETED)
    _log.info("stopping")
    waiting.cancel()
    working.cancel()
    try:
        await working
    except asyncio.CancelledError:
        pass
    except BaseExceptionGroup as errors:
        raise _first_of(errors) from None


def _first_of(group: BaseExceptionGroup[BaseException]) -> BaseException:
    first = group.exceptions[0]
    return _first_of(first) if isinstance(first, BaseExceptionGroup) else first


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


class History(Collects):
    """All parts of the program; created inside a running event loop."""

    def __init__(self, settings: Settings, endpoint: Endpoint) -> None:
        self._settings = settings
        self._kube = KubeClient(endpoint, user_agent="frameworkhistory", max_connections=64)
        self._client = AsyncClient(found=Access(endpoint, DEFAULT_NAMESPACE))
        # Pages that are slow take no connection from the writer.
        self._database, self._reading = Database(settings.database), Database(settings.database)
        self._reader = Reader(self._reading.engine)
        self._feed, self._storage = Feed(), Storage(settings.logs)
        self._follower = Follower(
            self._kube,
            self._database.engine,
            settings.namespaces,
            person_label=settings.user_label,
            on_kept=self._feed.publish,
        )
        # A pause that the API server asks for because of logs holds up nothing else.
        self._logs_kube = KubeClient(endpoint, user_agent="frameworkhistory-logs", max_connections=64)
        self._collector = Collector(
            self._logs_kube,
            None if settings.log_link else self._storage,
            self._follower.save,
            self._stored,
            Limits(log_bytes=settings.log_bytes),
            settings.namespaces,
        )
        self._is_open = False
        more = {kept.PATH: kept.kept_handler(None if settings.log_link else self._collector)}
        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        self._health = HealthServer(str, self.not_ready, lambda: generate_latest(registry), INTERNAL, more=more)

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
            async with self._page(host), asyncio.TaskGroup() as group:
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
        for failures in count():
            try:
                await asyncio.to_thread(self._database.open)
            except SQLAlchemyError as error:
                _log.warning("the database does not answer, and is asked again", error=str(error)[:500])
                await asyncio.sleep(pause_seconds(failures, random.random))
            else:
                self._is_open = True
                return

    @contextlib.asynccontextmanager
    async def _page(self, host: str | None) -> AsyncGenerator[None, None]:
        settings = self._settings
        key = (os.environ.get(KEY) or secrets.token_urlsafe(24)) if settings.local else ""
        people = People(self._kube, password_file=settings.proxy_password_file, key=key)
        site = Site(
            self._reader,
            people,
            self._current,
            self._collector.pods,
            # Not by the client that follows and asks for rights: a kubelet that is away would hold up both.
            partial(read_logs, self._client.kube),
            self._storage,
            self._feed,
            settings.log_link,
            has_actions=settings.actions,
        )
        app = make_app(site)
        if settings.actions:
            actions.setup(app, people, self._client, site.render)
        async with listening(app, host, settings.port, PAGES) as port:
            _log.info("serving", port=port, **({"open": f"http://{LOOPBACK}:{port}/signin?key={key}"} if key else {}))
            yield

    async def _drop_always(self) -> None:
        """Drop what is old, and its logs before: of a log that nobody knows nobody would delete it."""
        settings = self._settings
        engine, size = self._database.engine, settings.retention_bytes or None
        retention = Retention(engine, days=settings.retention_days or None, size=size)
        while True:
            await asyncio.sleep(RETENTION_SECONDS)
            try:
                while (due := await asyncio.to_thread(retention.due)) is not None:
                    frameworks, logs = due
                    await self._storage.delete(logs)
                    await asyncio.to_thread(retention.drop, frameworks)
                await asyncio.to_thread(retention.tidy)
            except Exception as error:  # noqa: BLE001 -- of a database or a storage that is away: later is as good
                _log.warning("what is old is not dropped yet", error=str(error)[:500])

    def _current(self, namespace: str, name: str) -> FrameworkView | None:
        found = self._follower.current(namespace, name)
        return None if found is None else FrameworkView(found)

    def collect(self) -> Iterator[Metric]:
        """Yield what `/metrics` shows."""
        follower, collector = self._follower, self._collector
        gauges: dict[str, tuple[str, float]] = {
            "frameworks_followed": ("Frameworks that exist.", follower.followed),
            "pending_changes": ("What was seen and is not written yet.", len(follower.pending)),
            "seconds_behind": ("For how long the oldest of it has waited.", follower.seconds_behind),
        }
        for name, (text, value) in gauges.items():
            yield GaugeMetricFamily(f"frameworkhistory_{name}", text, value)
        counters: dict[str, tuple[str, float]] = {
            "database_errors": ("Writes that the database has refused, and were tried again.", follower.errors),
            "states_refused": ("States that the database refuses for what they say.", follower.refused),
            "log_bytes": ("Read from the API server.", collector.reader.bytes),
        }
        for name, (text, value) in counters.items():
            yield CounterMetricFamily(f"frameworkhistory_{name}", text, value)
        logs = CounterMetricFamily("frameworkhistory_logs", "Logs by what is kept of them.", labels=["outcome"])
        for outcome in ("kept", "gap"):
            logs.add_metric([outcome], collector.stored if outcome == "kept" else collector.gaps)
        yield logs
