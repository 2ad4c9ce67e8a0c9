"""The server as a process: it stops under load without losing a call, and hostile clients do not make it grow."""

import asyncio
import contextlib
import json
import random
import re
import signal
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import psutil
import pytest

from frameworkinjector.serving.run import DRAIN_SECONDS, STOP_SECONDS
from localcluster.processes.ports import free_port
from testkit.waiting import patience
from tests.injector.golden_pods import pod_of
from tests.injector.loopback_server import ReviewClient, head, until
from tests.injector.random_fuzzer import mutated, seeds
from tests.injector.replica_processes import Replica, manifests, spawn
from tests.injector.reviews import review_of

HEAD, MIB = head(100), 1024 * 1024


@dataclass
class StandaloneReplica:
    """A replica that needs no API server, because its certificate comes from files; and what calls it."""

    replica: Replica
    client: ReviewClient

    def memory(self, field: str = "VmRSS") -> int:
        """Return the resident memory in KiB, or by `VmHWM` its peak."""
        status = Path(f"/proc/{self.replica.process.pid}/status").read_text()
        found = re.search(rf"{field}:\s+(\d+) kB", status)
        assert found
        return int(found[1])

    def cpu_seconds(self) -> float:
        """Return the CPU time that the process has used."""
        return sum(psutil.Process(self.replica.process.pid).cpu_times()[:2])


@pytest.fixture
def served(tmp_path: Path) -> Iterator[StandaloneReplica]:
    client, chain, key = ReviewClient(free_port()), tmp_path / "tls.crt", tmp_path / "tls.key"
    for file, content in zip((chain, key), client.issue(), strict=True):
        file.write_bytes(content)
    files = (f"--tls-cert-file={chain}", f"--tls-key-file={key}")
    replica = spawn(tmp_path, *files, "--env-files=quoted", port=client.port)
    try:
        replica.wait_until_ready()
        yield StandaloneReplica(replica, client)
    finally:
        if replica.process.poll() is None:
            assert replica.stop() == 0
        # Lines like those of the controller, and no traceback.
        for line in replica.log.read_text().splitlines():
            assert list(json.loads(line))[:3] == ["ts", "level", "msg"]


async def test_a_server_name_that_is_no_ascii_is_a_line_of_the_log(served: StandaloneReplica) -> None:
    hello, name = ssl.MemoryBIO(), "a" * 40
    with contextlib.suppress(ssl.SSLWantReadError):
        served.client.trust().wrap_bio(ssl.MemoryBIO(), hello, server_hostname=name).do_handshake()
    _, writer = await served.client.connect(tls=False)
    writer.write(hello.read().replace(name.encode(), b"\xff" * len(name)))
    await until(lambda: "UnicodeDecodeError" in served.replica.log.read_text())
    served.client.hang_up()
    assert all(json.loads(line) for line in served.replica.log.read_text().splitlines())


def golden_review() -> bytes:
    return review_of(pod_of("preset-tensorflow-file"))


async def test_after_sigterm_it_loses_no_call_and_exits(served: StandaloneReplica) -> None:
    failures: list[str] = []
    answered, refused = 0, asyncio.Event()
    sent = golden_review()

    async def call(session: aiohttp.ClientSession) -> None:
        nonlocal answered
        while not refused.is_set():
            try:
                status, _ = await served.client.post(session, sent)
                failures.extend([str(status)] if status != 200 else [])
                answered += 1
            except aiohttp.ClientConnectorError:
                # The listener is closed: the Service routes such calls to the other replica.
                refused.set()
            except aiohttp.ClientError as error:
                failures.append(repr(error))

    async with served.client.session() as session:
        calls = [asyncio.create_task(call(session)) for _ in range(20)]
        await until(lambda: answered > len(calls))
        before = answered
        served.replica.process.send_signal(signal.SIGTERM)
        await until(lambda: served.replica.health("/readyz") == (503, "not ready: stopping\n"))
        await asyncio.gather(*calls)
    assert await asyncio.to_thread(served.replica.process.wait, patience(10)) == 0
    # The ten seconds of the reference: the times that it gives itself, and little more.
    assert DRAIN_SECONDS + STOP_SECONDS < 9
    assert failures == []
    # It kept answering while nodes learn that it leaves the Service.
    assert answered > before > 0


async def status_of(client: ReviewClient, session: aiohttp.ClientSession, sent: bytes) -> int:
    """Send a body, and return the status of the answer; 0 if the connection was closed."""
    with contextlib.suppress(aiohttp.ClientConnectionError):
        return (await client.post(session, sent))[0]
    return 0


async def misbehave(client: ReviewClient, session: aiohttp.ClientSession, draw: random.Random) -> set[int]:
    """Run many clients of each kind; return the statuses of those that waited for an answer."""
    known = seeds()
    bodies = [mutated(known, draw) for _ in range(300)]
    huge = (b" " * (3 * MIB - 1), b"x" * (4 * MIB), b"[" * 900_000, review_of({"x": "y" * 2_900_000}))

    async def breaks_off(sent: bytes) -> None:
        with contextlib.suppress(OSError):
            _, writer = await client.connect()
            writer.write(b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n" + sent)
            writer.transport.abort()

    async def speaks_no_tls() -> None:
        with contextlib.suppress(OSError):
            _, writer = await client.connect(tls=False)
            writer.write(draw.randbytes(2000))
            await writer.drain()
            writer.close()

    # These send the beginning of a request and then nothing, the first ones not even a TLS handshake.
    await asyncio.gather(*(client.connect(tls=False) for _ in range(4)))
    for sent in (b"", b"POST /mut", HEAD, HEAD + b"{"):
        for _, writer in await asyncio.gather(*(client.connect() for _ in range(4))):
            writer.write(sent)
    await asyncio.gather(*(breaks_off(one[:500]) for one in bodies[:50]))
    await asyncio.gather(*(speaks_no_tls() for _ in range(20)))
    return set(await asyncio.gather(*(status_of(client, session, one) for one in (*bodies, *huge * 4))))


def memory_limit() -> int:
    """Return the memory limit of the container in the manifests, in KiB."""
    (deployment,) = [one for one in manifests() if one["kind"] == "Deployment"]
    limit: str = deployment["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["memory"]
    assert limit.endswith("Mi")
    return int(limit.removesuffix("Mi")) * 1024


async def test_hostile_clients_neither_stop_it_nor_make_it_grow(served: StandaloneReplica) -> None:
    client, draw = served.client, random.Random(1)
    async with client.session(limit=20) as session:
        # Until the memory that is kept has been allocated: some 90 MiB, whether after 12 rounds or 60.
        for _ in range(8):
            await misbehave(client, session, draw)
        before, statuses, costs = served.memory(), set[int](), list[float]()
        for _ in range(5):
            statuses |= await misbehave(client, session, draw)
            used = served.cpu_seconds()
            async with asyncio.timeout(patience(5)):
                assert await status_of(client, session, golden_review()) == 200
            costs.append(served.cpu_seconds() - used)
        grown = served.memory() - before
        client.hang_up()
    assert 200 in statuses
    assert all(status < 500 for status in statuses), statuses
    # The webhook's timeoutSeconds: the API server waits no longer. Of CPU time, which other processes do not take away.
    assert max(costs) < 5
    # Ten KiB for each client of these rounds would be more.
    assert grown < 20 * 1024, f"{grown} KiB"
    assert served.memory("VmHWM") < memory_limit()
    assert served.replica.process.poll() is None
