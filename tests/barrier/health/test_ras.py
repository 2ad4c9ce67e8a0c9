"""The client of NCCL's RAS, with a server made after NVIDIA's documentation (docs/reference/progress.md)."""

import asyncio
import json
import socketserver
import threading
from pathlib import Path
from typing import Any

import pytest

from frameworkbarrier.health import ras
from frameworkbarrier.health.ras import ANSWER_BYTES, REQUEST, follow, operations
from localcluster.processes.ports import free_port
from tests.barrier.health.test_monitor import Pod

KINDS = ("Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce")


def status(*communicators: list[int | None]) -> bytes:
    """Return an answer about communicators: the AllReduces of each rank, None where a rank is missing."""
    found: list[dict[str, Any]] = []
    for number, ranks in enumerate(communicators):
        known = [
            {
                "rank": rank,
                "host": "10.0.0.1",
                "pid": 7,
                "collective_counts": dict.fromkeys(KINDS, 1) | {"AllReduce": one},
            }
            for rank, one in enumerate(ranks)
            if one is not None
        ]
        missing = [{"rank": rank, "status": {"unresponsive": True}} for rank, one in enumerate(ranks) if one is None]
        hashes = {"hash": f"0x{number}", "secondary_hash": "0x1:0x2"}
        found.append({**hashes, "size": len(ranks), "ranks": known, "missing_ranks": missing})
    return b"OK\n" + json.dumps({"communicators_count": len(found), "communicators": found}, indent=2).encode()


@pytest.mark.parametrize(
    ("answer", "count"),
    [
        (status([10, 10]), 14),
        (status([10, 9]), 14),
        (status([None, 10]), 14),
        (status([10, 10], [5]), 23),
        (status([None, None], [5]), 9),
        (status([None]), None),
        (status(), None),
        (b"ERROR: Unknown command set format json\nJob summary\n===========\n", None),
        (b'"hash" "collective_counts": {"AllReduce": -1, "Reduce": "9", "Broadcast": ' + b"9" * 5000 + b"}", 0),
        (b'"hash" "collective_counts": {' * 2000, None),
        (bytes(range(256)), None),
    ],
)
def test_a_communicator_is_as_far_as_its_furthest_rank(answer: bytes, count: int | None) -> None:
    assert operations(answer) == count


def test_it_asks_again_whatever_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ras, "TIMEOUT_SEC", 0.2)
    endless = status([3]) + b" " * (3 * ANSWER_BYTES) + status([1000])
    left = [status([1]), None, b"", endless, status([2]), *[b""] * 1000]  # None: it keeps still

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.readexactly(len(REQUEST)) == REQUEST
        answer = left.pop(0)
        if answer is None:
            await reader.read()
        else:
            writer.write(answer)
        writer.close()

    async def heard() -> list[bytes]:
        counts = asyncio.Queue[bytes]()
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server, asyncio.timeout(120):
            address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
            following = asyncio.ensure_future(follow(counts.put_nowait, address, 0.01))
            found = [await counts.get() for _ in range(3)]
            following.cancel()
        return found

    assert asyncio.run(heard()) == [b"5", b"7", b"6"]


@pytest.mark.parametrize("address", ["127.0.0.1:1", "", ":", "a..b:x", "[::1]:1", "x" * 300])
def test_nobody_there_is_no_error(address: str) -> None:
    async def ask() -> None:
        async with asyncio.timeout(0.2):
            await follow(pytest.fail, address, 0.01)

    with pytest.raises(TimeoutError):
        asyncio.run(ask())


class Server(socketserver.StreamRequestHandler):
    """NCCL's RAS, whose ranks stay where they are."""

    def handle(self) -> None:
        self.rfile.readline()  # who closes with something unread may take the answer back
        self.wfile.write(status([38]))


def test_the_child_of_a_sidecar_is_as_far_as_ras_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socketserver.TCPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("NCCL_RAS_ADDR", f"127.0.0.1:{server.server_address[1]}")
        pod = Pod(tmp_path / "pod", 0, free_port(), ras=True)
        with pod.process:
            pod.tell([pod])
            assert pod.hears_of_hang()["hang"]["step"] == 42
            pod.process.terminate()
        server.shutdown()
