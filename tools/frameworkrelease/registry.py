"""An image registry on loopback, for checks: of the distribution's package, without TLS, with its files in a folder."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from frameworkrelease.commands import ReleaseError
from localcluster import Cluster
from localcluster.node import namespaces
from localcluster.packages import require
from localcluster.processes.health import check_health
from localcluster.processes.ports import free_port
from localcluster.processes.supervisor import Supervisor

_START_SECONDS: Final = 300
_CONFIG: Final = "registry.yml"


@contextlib.contextmanager
def on_loopback(folder: Path) -> Iterator[str]:
    """Run a registry in an empty folder, and yield its address, such as `127.0.0.1:5000`; see `Supervisor.start`."""
    require(("docker-registry",))
    address = f"127.0.0.1:{free_port()}"
    (folder / _CONFIG).write_text(
        f"version: 0.1\nlog: {{level: error}}\nhttp: {{addr: '{address}'}}\n"
        f"storage: {{filesystem: {{rootdirectory: '{folder / 'registry'}'}}}}\n"
    )
    with _process(folder, "on-loopback", (), lambda: check_health(f"http://{address}/v2/")):
        yield address


@contextlib.contextmanager
def on_node(folder: Path, cluster: Cluster) -> Iterator[None]:
    """Run a second process of a registry at the same address on the node of a cluster, whose loopback is its own."""
    init = namespaces.init(cluster)
    if init is None:
        raise ReleaseError(f"cluster {cluster.name!r} has no node that runs")
    with _process(folder, "on-node", namespaces.inside(init.pid), lambda: True):
        yield


@contextlib.contextmanager
def _process(folder: Path, name: str, prefix: Sequence[str], ready: Callable[[], bool | str]) -> Iterator[None]:
    processes = Supervisor(folder)
    command = [*prefix, "docker-registry", "serve", str(folder / _CONFIG)]
    processes.start(name, command, ready=ready, timeout_seconds=_START_SECONDS)
    try:
        yield
    finally:
        processes.stop(name)
