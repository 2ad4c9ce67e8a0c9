"""One process: from its settings to its end. Of several replicas one works, the others are ready to follow it."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING, Final

import structlog

from frameworkcontroller.api import names
from frameworkcontroller.cluster.credentials import SERVICE_ACCOUNT_ROOT
from frameworkcontroller.cluster.election import LeaderElection, unique_identity
from frameworkcontroller.cluster.rest import KubeClient, KubeError

from .engine import Engine
from .health import serve_health
from .limiter import Limiter
from .metrics import Metrics
from .performer import Performer

if TYPE_CHECKING:
    from pathlib import Path

    from frameworkcontroller.cluster.credentials import Endpoint

    from .settings import Settings

_log = structlog.get_logger(__name__)

DEFAULT_BURST: Final = 120
FALLBACK_NAMESPACE: Final = "default"
# A pass takes milliseconds; so long nobody waits for one, however many Frameworks there are.
STALLED_SECONDS: Final = 60.0


class NotServedError(Exception):
    """The API server does not know Frameworks."""


async def serve(settings: Settings, endpoint: Endpoint, *, health_port: int) -> None:
    """Control Frameworks until SIGTERM or SIGINT.

    Stopping needs no farewell but the lease's: nothing is kept in memory only.

    Args:
        settings: all of them.
        endpoint: the API server.
        health_port: of health and metrics; 0 for none.

    Raises:
        NotServedError: Frameworks are not served within the time that the settings allow.
    """
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    metrics = Metrics()
    client = KubeClient(endpoint, max_connections=2 * settings.slots, observer=metrics)
    # The lease is never behind anything else.
    lease_client = KubeClient(endpoint, max_connections=2, observer=metrics)
    controller = _Controller(settings, client, lease_client, metrics)
    _log.info("starting", server=endpoint.server, namespace=settings.namespace or "(all)")
    try:
        async with asyncio.TaskGroup() as group:
            working = [group.create_task(controller.run())]
            if health_port:
                health = serve_health(
                    health_port,
                    trouble=lambda: controller.trouble,
                    is_ready=lambda: controller.is_ready,
                    metrics=metrics,
                )
                working.append(group.create_task(health))
            await stopping.wait()
            _log.info("stopping")
            for task in working:
                task.cancel()
    except* NotServedError as errors:
        raise errors.exceptions[0] from None
    finally:
        await client.close()
        await lease_client.close()


class _Controller:
    """The work of this replica, in as many terms as it is elected for."""

    def __init__(self, settings: Settings, client: KubeClient, lease_client: KubeClient, metrics: Metrics) -> None:
        self._settings, self._client, self._metrics = settings, client, metrics
        self._lease_client = lease_client
        self._engine: Engine | None = None
        self._stands_by = False
        self._election: LeaderElection | None = None

    @property
    def is_ready(self) -> bool:
        """Whether it works with full caches, or could as soon as it is elected."""
        return self._engine.has_synced if self._engine is not None else self._stands_by

    @property
    def trouble(self) -> str:
        """Why this process cannot do its work any more, "" if it can."""
        if self._engine is None:
            return ""
        if not self._may_act():
            return "the lease is lost and the work has not ended"
        waits = self._engine.waits_seconds
        return f"the loop stalls: a Framework has waited for {waits:.0f} s" if waits > STALLED_SECONDS else ""

    async def run(self) -> None:
        """Work, as soon and as long as it is this replica's turn."""
        await until_served(
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
            chosen.namespace or own_namespace(),
            chosen.name,
            unique_identity(),
            lease_duration_seconds=chosen.lease_duration_sec,
            renew_deadline_seconds=chosen.renew_deadline_sec,
            retry_period_seconds=chosen.retry_period_sec,
        )
        self._metrics.watch_lease(chosen.name, self._may_act)
        self._stands_by = True
        await self._election.run(self._lead)

    async def _lead(self) -> None:
        settings = self._settings
        burst = DEFAULT_BURST if settings.kube_client_burst is None else settings.kube_client_burst
        limiter = Limiter(settings.kube_client_qps, burst)
        self._engine = Engine(
            self._client,
            Performer(self._client, compress=settings.large_framework_compression, limiter=limiter),
            settings.core,
            namespace=settings.namespace,
            slots=settings.slots,
            metrics=self._metrics,
            kept=settings.log_object_snapshot,
            may_act=self._may_act,
        )
        _log.info("working")
        try:
            await self._engine.run()
        finally:
            self._engine = None

    def _may_act(self) -> bool:
        return self._election is None or self._election.holds


async def until_served(client: KubeClient, *, every: float, within: float) -> None:
    """Wait until the API server serves Frameworks.

    Args:
        client: of the API server.
        every: seconds between two looks.
        within: seconds until it is given up.

    Raises:
        NotServedError: it was given up; the message says why.
    """
    why = ""
    try:
        async with asyncio.timeout(within):
            while True:
                try:
                    await client.get(names.CRD_PATH)
                except KubeError as error:
                    if str(error) != why:
                        why = str(error)
                        _log.warning("Frameworks are not served yet", error=why)
                else:
                    return
                await asyncio.sleep(every)
    except TimeoutError:
        reason = f"Frameworks are not served after {within:g} s (is crd.yaml applied?): {why or 'no answer'}"
        raise NotServedError(reason) from None


def own_namespace(root: Path = SERVICE_ACCOUNT_ROOT) -> str:
    """The namespace of this Pod; outside of one, ``POD_NAMESPACE`` or ``default``."""
    try:
        return (root / "namespace").read_text().strip() or FALLBACK_NAMESPACE
    except OSError:
        return os.environ.get("POD_NAMESPACE") or FALLBACK_NAMESPACE
