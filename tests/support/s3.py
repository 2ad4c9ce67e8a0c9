"""A real S3 server, whose address and keys the environment names while a test uses it: a pytest plugin."""

import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from localcluster.processes.ports import free_port
from localcluster.programs import binaries
from localcluster.programs.catalogue import pinned_version
from testkit.waiting import eventually, patience


class S3Server:
    """versitygw, which has one bucket; it may be stopped and started."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None
        (folder / "data" / "bucket").mkdir(parents=True)
        (folder / "attributes").mkdir()

    def start(self) -> None:
        program = binaries.find("versitygw", kubernetes=pinned_version("kubernetes"))
        options = ["--quiet", "--port", f"127.0.0.1:{self.port}", "--access", "key", "--secret", "secret"]
        backend = ["posix", "--sidecar", str(self.folder / "attributes"), str(self.folder / "data")]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen([program, *options, *backend], stdout=log, stderr=log)
        eventually(self._answers)

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(patience(30))
            self.process = None

    def _answers(self) -> None:
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", self.port)) == 0, (self.folder / "log").read_text()


@pytest.fixture
def s3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    server = S3Server(tmp_path)
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.port}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    server.start()
    yield server
    server.stop()
