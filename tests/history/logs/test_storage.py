"""Logs in a directory, and on a real S3 server."""

import gzip
import os
from pathlib import Path

import obstore
import pytest

from frameworkhistory.logs.storage import Storage
from tests.support.s3 import S3Server

KEY = "demo/uid/0/worker-0/0-pod-main-0.log.gz"
FAULTS = (OSError, obstore.exceptions.BaseError)


async def check(storage: Storage) -> int:
    """What holds of every storage; returns the size of the object that is left."""
    lines = os.urandom(3 << 20) + b"2026-01-01T12:00:00Z x\n" * 100_000
    await storage.put(KEY, b"first\n")
    size = await storage.put(KEY, lines)
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
    return size


async def test_a_directory_keeps_gzip_of_the_lines_and_no_empty_folders(tmp_path: Path) -> None:
    storage = Storage(f"file://{tmp_path}/not/there")
    size = await check(storage)
    packed = (tmp_path / "not" / "there" / KEY).read_bytes()
    assert (len(packed), gzip.decompress(packed)[-4:]) == (size, b"Z x\n")
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
