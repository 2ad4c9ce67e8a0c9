"""The archive as a process on a cluster, with the permissions of an administrator."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from frameworkhistory.archive.database import Database
from frameworkhistory.archive.reader import Reader
from frameworkhistory.run import KEY
from localcluster import Cluster
from localcluster.processes.ports import free_port
from testkit.waiting import eventually
from tests.support.http import fetch


@dataclass
class HistoryProcess:
    """`frameworkhistory` with its data in a folder, which outlives it."""

    cluster: Cluster
    folder: Path
    namespaces: tuple[str, ...]
    database: str = ""
    more: tuple[str, ...] = ()
    prefix: tuple[str, ...] = ()
    """A command that becomes it."""
    local: bool = True
    port: int = field(default_factory=free_port)
    internal_port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    def __post_init__(self) -> None:
        self.database = self.database or f"sqlite:///{self.folder}/history.db"

    @property
    def url(self) -> str:
        """What the controller asks."""
        return f"http://127.0.0.1:{self.internal_port}"

    @property
    def log(self) -> str:
        """All lines that it has written."""
        file = self.folder / "history.log"
        return file.read_text() if file.exists() else ""

    def start(self, *, ready: bool = True) -> None:
        """Start it, and wait until it has seen all."""
        command = [sys.executable, "-m", "frameworkhistory", f"--kubeconfig={self.cluster.kubeconfig}"]
        command += ["--local"] if self.local else []
        command += [f"--database={self.database}", f"--logs=file://{self.folder}/logs"]
        command += [f"--port={self.port}", f"--internal-port={self.internal_port}"]
        command += [f"--namespace={one}" for one in self.namespaces]
        with (self.folder / "history.log").open("ab") as output:
            words = [*self.prefix, *command, *self.more]
            self.process = subprocess.Popen(words, stdout=output, stderr=output, env=os.environ | {KEY: "key"})
        if ready:
            eventually(self._is_ready, 30)

    def _is_ready(self) -> None:
        try:
            status, text = fetch(self.internal_port, "/readyz")
        except OSError as error:
            raise AssertionError(self.log[-3000:]) from error
        assert status == 200, text

    def page(self, path: str) -> str:
        """Return what a local one shows."""
        status, text = fetch(self.port, path, Authorization="Bearer key")
        assert status == 200, text
        return text

    def kill(self) -> None:
        """End it as a crash does."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """End it as the kubelet does, and return the exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Start it, and stop it at the end of the block: it has to end cleanly."""
        self.start()
        try:
            yield
        finally:
            code = self.stop()
        assert code == 0, self.log[-3000:]
        assert "Traceback" not in self.log, self.log[-5000:]

    @contextlib.contextmanager
    def reader(self) -> Iterator[Reader]:
        """Read what it has kept."""
        database = Database(self.database)
        try:
            yield Reader(database.engine)
        finally:
            database.close()

    def framework(self, name: str, uid: str = "") -> dict[str, Any]:
        """Return the row of a Framework."""
        with self.reader() as reader:
            found = reader.framework(self.namespaces[0], name, uid)
        assert found is not None, f"{name} is not in the archive"
        return found
