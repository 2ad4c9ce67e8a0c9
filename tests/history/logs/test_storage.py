"""Logs in a directory, and on a real S3 server."""

import gzip
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import obstore
import pytest

from frameworkhistory.logs.storage import Storage
from localcluster.processes.ports import free_port
from localcluster.programs import binaries
from localcluster.programs.catalogue import pinned_version
from testkit.waiting import eventually, patience

KEY = "demo/uid/0/worker-0/0-pod-main-0.log.gz"
FAULTS = (OSError, obstore.exceptions.BaseError)


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


async def check(storage: Storage) -> None:
    """What holds of every storage."""
    lines = os.urandom(3 << 20) + b"2026-01-01T12:00:00Z x\n" * 100_000
    await storage.put(KEY, b"first\n")
    await storage.put(KEY, lines)
    sizes = [len(chunk) async for chunk in storage.chunks(KEY)]
    assert max(sizes) <= 1 << 20
    assert await storage.get(KEY) == lines
    others = [f"demo/uid/0/worker-0/{number}" for number in range(3)]
    for key in others:
        await storage.put(key, b"")
    assert await storage.get(others[0]) == b""
    await storage.delete(["demo/none", others[0], "demo/none/either", others[1]])
    await storage.delete([])
    assert await storage.get(others[2]) == b""
    for key in (*others[:2], "demo/none"):
        with pytest.raises(FileNotFoundError):
            await storage.get(key)


async def test_a_directory_keeps_gzip_of_the_lines_and_no_empty_folders(tmp_path: Path) -> None:
    storage = Storage(f"file://{tmp_path}/not/there")
    await check(storage)
    assert gzip.decompress((tmp_path / "not" / "there" / KEY).read_bytes()).endswith(b"Z x\n")
    await storage.delete([KEY, "demo/uid/0/worker-0/2"])
    assert not (tmp_path / "not/there/demo/uid/0").exists()
    (tmp_path / "file").write_text("")
    with pytest.raises(FAULTS):
        await Storage(f"file://{tmp_path}/file/below").put(KEY, b"")


async def test_an_s3_server_keeps_the_same_below_a_prefix_and_one_that_is_away_is_an_error(s3: S3Server) -> None:
    storage = Storage("s3://bucket/a/prefix")
    await check(storage)
    assert (s3.folder / "data" / "bucket" / "a" / "prefix" / KEY).exists()
    s3.stop()
    with pytest.raises(FAULTS):
        await storage.put(KEY, b"")
    s3.start()
    assert (await storage.get(KEY)).endswith(b"Z x\n")
    with pytest.raises(FAULTS):
        await Storage("s3://no-bucket").put(KEY, b"")
