"""The controller's command line: `frameworkcontroller [--config FILE]`."""

import argparse
import gc
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import uvloop

from frameworkcontroller import __version__
from frameworkcontroller.engine.config.settings import FILE_NAME, SettingsError, default_config, load_settings
from frameworkcontroller.engine.observe.log import LAST_SECONDS, STDERR, configure_logging
from frameworkcontroller.engine.requests.discovery import NotServedError
from frameworkcontroller.engine.run import serve
from frameworkkube.deep_objects import read_deep_objects
from frameworkkube.errors import CredentialsError, EtcdRestoredError
from frameworkkube.http.credentials import discover

OLD_COLLECTION: Final = 100_000
"""After so many collections of younger objects, days of work, those of all."""


def collect_seldom() -> None:
    """Leave what is old to Python's reference counts: to look for cycles in it stops the loop for 0.1 ms a Framework.

    Nearly all cycles, of errors with their tracebacks, are garbage while they are young. A few Frameworks that are made
    again each second would have all that there are looked through every other second.
    """
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, OLD_COLLECTION)


def main(argv: Sequence[str] | None = None) -> int:
    """Run until SIGTERM or SIGINT, and return the exit code.

    It is 1 if Frameworks are not served or etcd was restored from a backup, 2 if the configuration is not usable.
    """
    parser = argparse.ArgumentParser(prog="frameworkcontroller", description="Runs Frameworks on Kubernetes.")
    parser.add_argument("--version", action="version", version=__version__)
    parser.add_argument("--config", type=Path, help=f"configuration file (default: {FILE_NAME}, if it exists)")
    parser.add_argument(
        "--namespace",
        action="append",
        help="only Frameworks of this namespace, whatever the file says; once for each of several",
    )
    parser.add_argument("--print-default-config", action="store_true", help="print the shipped configuration and exit")
    parser.add_argument(
        "--health-port", type=int, default=8081, help="port of /healthz, /readyz and /metrics (0: none)"
    )
    parser.add_argument("--log-format", choices=("text", "json"), default="text")
    arguments = parser.parse_args(argv)
    if arguments.print_default_config:
        sys.stdout.write(default_config())
        return 0
    read_deep_objects()
    collect_seldom()
    configure_logging(json=arguments.log_format == "json")
    default = Path(FILE_NAME)
    try:
        settings = load_settings(arguments.config or (default if default.is_file() else None))
        if arguments.namespace is not None:
            settings = settings.in_namespaces(arguments.namespace)
        endpoint = discover(address=settings.kube_api_server_address, kubeconfig=settings.kube_config_file_path)
        uvloop.run(serve(settings, endpoint, health_port=arguments.health_port))
    except (SettingsError, CredentialsError, NotServedError, EtcdRestoredError) as error:
        STDERR.flush(LAST_SECONDS)
        sys.stderr.write(f"frameworkcontroller: {error}\n")
        return 2 if isinstance(error, SettingsError | CredentialsError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
