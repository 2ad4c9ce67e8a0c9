"""An image registry on loopback, for checks: of the distribution's package, without TLS, with its files in a folder."""

from __future__ import annotations

import contextlib
import subprocess
import urllib.request
from typing import TYPE_CHECKING, Final

from tenacity import retry, retry_if_exception_type, stop_after_delay, wait_fixed

from frameworkrelease.artefacts.run import ReleaseError
from localcluster import Cluster, namespaces
from localcluster.packages import require
from localcluster.ports import free_port
from localcluster.progress import Lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

_START_SECONDS: Final = 300
_ANSWER_SECONDS: Final = 50
_STOP_SECONDS: Final = 100


@contextlib.contextmanager
def on_loopback(folder: Path) -> Iterator[str]:
    """Run an empty registry, and yield its address, such as `127.0.0.1:5000`.

    Args:
        folder: An empty folder for its files.

    Raises:
        ReleaseError: The registry has ended; the text is its log.
        OSError: It does not answer within five minutes.
    """
    require(("docker-registry",), Lines())
    address = f"127.0.0.1:{free_port()}"
    (folder / "registry.yml").write_text(
        f"version: 0.1\nlog: {{level: error}}\nhttp: {{addr: '{address}'}}\n"
        f"storage: {{filesystem: {{rootdirectory: '{folder / 'registry'}'}}}}\n"
    )
    with _process(folder, ()) as process:

        @retry(
            retry=retry_if_exception_type(OSError),
            wait=wait_fixed(0.05),
            stop=stop_after_delay(_START_SECONDS),
            reraise=True,
        )
        def await_answer() -> None:
            if process.poll() is not None:
                raise ReleaseError(f"the registry has ended:\n{(folder / 'registry.log').read_text()}")
            urllib.request.urlopen(f"http://{address}/v2/", timeout=_ANSWER_SECONDS).close()

        await_answer()
        yield address


@contextlib.contextmanager
def on_node(folder: Path, cluster: Cluster) -> Iterator[None]:
    """Run a second process of a registry at the same address on the node of a cluster, which has a loopback of its own.

    Raises:
        ReleaseError: The cluster has no real node.
    """
    init = namespaces.init(cluster)
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
        process.wait(_STOP_SECONDS)
