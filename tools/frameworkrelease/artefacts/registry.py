"""An image registry on loopback, for checks: of the distribution's package, without TLS, with its files in a folder."""

from __future__ import annotations

import contextlib
import subprocess
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

from frameworkrelease.artefacts.run import ReleaseError
from localcluster import Cluster, namespaces, settings
from localcluster.packages import require
from localcluster.ports import free_port
from localcluster.progress import Lines, Silent
from localcluster.waiting import eventually, patience

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


@contextlib.contextmanager
def on_loopback(folder: Path) -> Iterator[str]:
    """Run an empty registry, and yield its address, such as `127.0.0.1:5000`.

    Args:
        folder: An empty folder for its files.
    """
    require(("docker-registry",), Lines())
    address = f"127.0.0.1:{free_port()}"
    (folder / "registry.yml").write_text(
        f"version: 0.1\nlog: {{level: error}}\nhttp: {{addr: '{address}'}}\n"
        f"storage: {{filesystem: {{rootdirectory: '{folder / 'registry'}'}}}}\n"
    )
    with _process(folder, ()) as process:

        def answers() -> None:
            assert process.poll() is None, (folder / "registry.log").read_text()
            try:
                urllib.request.urlopen(f"http://{address}/v2/", timeout=patience(5)).close()
            except urllib.error.URLError as error:
                raise AssertionError(str(error)) from error

        eventually(answers, 30)
        yield address


@contextlib.contextmanager
def on_node(folder: Path, cluster: Cluster) -> Iterator[None]:
    """Run a second process of a registry at the same address on the node of a cluster, which has a loopback of its own.

    Raises:
        ReleaseError: The cluster has no real node.
    """
    known = settings.read(cluster.name)
    init = namespaces.init(settings.context(known, Silent())) if known else None
    if init is None:
        raise ReleaseError(f"cluster {cluster.name!r} has no node that runs")
    with _process(folder, namespaces.inside(init.pid)):
        yield


@contextlib.contextmanager
def _process(folder: Path, prefix: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    with (folder / "registry.log").open("ab") as log:
        command = [*prefix, "docker-registry", "serve", str(folder / "registry.yml")]
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(patience(10))
