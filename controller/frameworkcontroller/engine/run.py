"""One process from its settings to its end. Of several replicas one works, the others are ready to take over.

`__main__` calls `serve`, which waits until Frameworks are served, competes for the Lease, and runs one `Engine` for
each term of leadership, next to the health server.
"""

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, NoReturn

import structlog

from frameworkcontroller.core.policies.shares import Pace
from frameworkcontroller.engine.actions import LOG_ASKS
from frameworkcontroller.engine.config.settings import Settings
from frameworkcontroller.engine.engine import Engine
from frameworkcontroller.engine.observe.log import LAST_SECONDS, STDERR
from frameworkcontroller.engine.observe.metrics import Metrics
from frameworkcontroller.engine.requests.discovery import NotServedError, wait_until_served
from frameworkcontroller.engine.requests.performer import Performer
from frameworkkube.election.election import LeaderElection, exit_at_once, unique_identity
from frameworkkube.errors import EtcdRestoredError
from frameworkkube.http.client import KubeClient
from frameworkkube.http.credentials import SERVICE_ACCOUNT_ROOT, Endpoint
from frameworkkube.serving.health import HealthServer

_log = structlog.get_logger(__name__)

FALLBACK_NAMESPACE: Final = "default"
# A decision takes milliseconds: one of those that wait has its turn long before, however many there are.
STALLED_SECONDS: Final = 60.0


async def serve(settings: Settings, endpoint: Endpoint, *, health_port: int) -> None:
    """Control Frameworks until SIGTERM or SIGINT; serve health and metrics at the port, unless it is 0.

    Stopping only releases the lease: nothing is kept in memory only.

    Raises:
        NotServedError: Frameworks are not served as needed within the time that the settings allow.
        EtcdRestoredError: What is cached may never have happened: the process must start again.
    """
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(log_loop_error)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    metrics = Metrics(settings.core.codes)
    metrics.dropped_lines.set_function(lambda: STDERR.dropped)
    client = KubeClient(
        endpoint,
        # Half for what one namespace has on its way at most: slots of Frameworks, and as many of others' gangs.
        max_connections=4 * settings.slots,
        observer=metrics,
        may_write=lambda: controller.may_act,
        throttle=_throttle(settings.kube_client_qps, settings.kube_client_burst),
    )
    # Requests about the Lease wait neither for a connection nor for the rate.
    lease_client = KubeClient(endpoint, max_connections=2, observer=metrics)
    controller = _Controller(settings, client, lease_client, metrics)
    health = HealthServer(lambda: controller.trouble, lambda: controller.unready, metrics.text)
    _log.info("starting", server=endpoint.server, namespaces=", ".join(settings.namespaces) or "(all)")
    try:
        if health_port:
            await health.start(None, health_port)
        async with asyncio.TaskGroup() as group:
            working = group.create_task(controller.run())
            await stopping.wait()
            _log.info("stopping")
            working.cancel()
    except* (NotServedError, EtcdRestoredError) as errors:
        raise _first_of(errors) from None
    finally:
        await health.stop()
        await client.close()
        await lease_client.close()


def _throttle(rate: float | None, burst: int) -> Callable[[], Awaitable[None]] | None:
    """Return what waits until one more request may be sent, None where the rate a second has no limit.

    It is in addition to the server's flow control (docs/reference/framework-api.md, section 11).
    """
    if rate is None:
        return None
    pace = Pace(rate, burst)

    async def wait() -> None:
        if (seconds := pace.reserve(time.monotonic())) > 0:
            await asyncio.sleep(seconds)

    return wait


def _first_of(group: BaseExceptionGroup[BaseException]) -> BaseException:
    first = group.exceptions[0]
    return _first_of(first) if isinstance(first, BaseExceptionGroup) else first


def log_loop_error(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log an error that no task waits for, in the format of all lines; asyncio would write a bare traceback.

    A request that is given up while its connection is being made leaves such an error when the connection ends.
    """
    error, what = context.get("exception"), context.get("message", "")
    if isinstance(error, OSError) or "transport" in context:
        _log.info("a connection ended that nothing waited for", error=repr(error))
    else:
        _log.error("error in the event loop", what=what, exc_info=error)


class _Controller:
    """The work of this replica, in as many terms as it is elected for."""

    def __init__(self, settings: Settings, client: KubeClient, lease_client: KubeClient, metrics: Metrics) -> None:
        self._settings, self._client, self._metrics = settings, client, metrics
        self._lease_client = lease_client
        self._engine: Engine | None = None
        self._election: LeaderElection | None = None

    @property
    def unready(self) -> list[str]:
        """Why this replica neither works with full caches, nor is ready to as soon as it is elected."""
        is_candidate = self._election is not None
        is_ready = is_candidate if self._engine is None else self._engine.has_synced
        return [] if is_ready else ["the caches are not full yet"]

    @property
    def may_act(self) -> bool:
        """Whether this replica may change anything at this moment; the client asks as the bytes go out."""
        return self._election is None or self._election.holds

    @property
    def trouble(self) -> str:
        """Why this process cannot do its work any more, "" if it can."""
        if self._engine is None:
            return ""
        if not self.may_act:
            return "the lease is lost and the work has not ended"
        stalled = self._engine.stalled_seconds
        return f"the loop stalls: nothing had its turn for {stalled:.0f} s" if stalled > STALLED_SECONDS else ""

    async def run(self) -> None:
        """Work whenever this replica is elected, until cancelled."""
        await wait_until_served(
            self._client,
            every=self._settings.crd_established_check_interval_sec,
            within=self._settings.crd_established_check_timeout_sec,
        )
        chosen = self._settings.leader_election
        if not chosen.enabled:
            await self._lead()
            return
        self._election = LeaderElection(
            self._lease_client,
            chosen.namespace or _own_namespace(),
            chosen.name,
            unique_identity(),
            lease_duration_seconds=chosen.lease_duration_sec,
            renew_deadline_seconds=chosen.renew_deadline_sec,
            retry_period_seconds=chosen.retry_period_sec,
            on_overdue=_end_at_once,
        )
        self._metrics.leads.labels(chosen.name).set_function(lambda: self.may_act)
        await self._election.run(self._lead)

    async def _lead(self) -> None:
        settings, url = self._settings, self._settings.history.url
        history = KubeClient(Endpoint(server=url), max_connections=LOG_ASKS) if url else None
        self._engine = Engine(
            self._client,
            Performer(self._client, compress=settings.large_framework_compression, history=history),
            settings.core,
            namespaces=settings.namespaces,
            foreign_gangs=settings.foreign_gangs.enabled,
            slots=settings.slots,
            metrics=self._metrics,
            triggers=settings.log_object_snapshot.triggers,
            may_act=lambda: self.may_act,
        )
        _log.info("working")
        try:
            await self._engine.run()
        finally:
            self._engine = None
            if history is not None:
                await history.close()
            # Another replica tells of the Frameworks from now on.
            self._metrics.watch()


def _end_at_once() -> NoReturn:
    """End the process, which may write nothing any more but the lines that say why."""
    STDERR.flush(LAST_SECONDS)
    exit_at_once()


def _own_namespace() -> str:
    """Return the namespace of this Pod; outside of a Pod, `POD_NAMESPACE` or `default`."""
    try:
        return (SERVICE_ACCOUNT_ROOT / "namespace").read_text().strip() or FALLBACK_NAMESPACE
    except OSError:
        return os.environ.get("POD_NAMESPACE") or FALLBACK_NAMESPACE
