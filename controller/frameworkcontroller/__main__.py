"""The controller's command line: ``frameworkcontroller [--config FILE]``."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import structlog
import uvloop

from frameworkcontroller.cluster.credentials import discover
from frameworkcontroller.cluster.errors import CredentialsError
from frameworkcontroller.cluster.rest import KubeClient
from frameworkcontroller.engine.engine import Engine
from frameworkcontroller.engine.health import serve_health
from frameworkcontroller.engine.log import configure_logging
from frameworkcontroller.engine.metrics import Metrics
from frameworkcontroller.engine.performer import Performer
from frameworkcontroller.engine.settings import Settings, SettingsError, load_settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frameworkcontroller.cluster.credentials import Endpoint

_log = structlog.get_logger(__name__)
DEFAULT_CONFIG = Path("frameworkcontroller.yaml")


def main(argv: Sequence[str] | None = None) -> int:
    """Run until SIGTERM or SIGINT. Returns the exit code: 0, or 2 for a configuration that is not usable."""
    parser = argparse.ArgumentParser(prog="frameworkcontroller", description="Runs Frameworks on Kubernetes.")
    parser.add_argument("--config", type=Path, help=f"configuration file (default: {DEFAULT_CONFIG}, if it exists)")
    parser.add_argument(
        "--health-port", type=int, default=8081, help="port of /healthz, /readyz and /metrics (0: none)"
    )
    parser.add_argument("--log-format", choices=("text", "json"), default="text")
    arguments = parser.parse_args(argv)
    configure_logging(json=arguments.log_format == "json")
    try:
        settings = load_settings(arguments.config or (DEFAULT_CONFIG if DEFAULT_CONFIG.is_file() else None))
        endpoint = discover(address=settings.kube_api_server_address, kubeconfig=settings.kube_config_file_path)
    except (SettingsError, CredentialsError) as error:
        print(f"frameworkcontroller: {error}", file=sys.stderr)  # noqa: T201 - for the person who started it
        return 2
    uvloop.run(serve(settings, endpoint, health_port=arguments.health_port))
    return 0


async def serve(settings: Settings, endpoint: Endpoint, *, health_port: int) -> None:
    """Control Frameworks until told to stop. That needs no farewell: nothing is kept in memory only."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    metrics = Metrics()
    client = KubeClient(endpoint, max_connections=2 * settings.concurrent_requests, observer=metrics)
    engine = Engine(
        client,
        Performer(client, compress=settings.large_framework_compression),
        settings.core,
        namespace=settings.namespace,
        slots=settings.concurrent_requests,
        metrics=metrics,
    )
    _log.info("starting", server=endpoint.server, namespace=settings.namespace or "(all)")
    try:
        async with asyncio.TaskGroup() as group:
            working = [group.create_task(engine.run())]
            if health_port:
                working.append(
                    group.create_task(serve_health(health_port, is_ready=lambda: engine.has_synced, metrics=metrics))
                )
            await stopping.wait()
            _log.info("stopping")
            for task in working:
                task.cancel()
    finally:
        await client.close()


if __name__ == "__main__":
    sys.exit(main())
