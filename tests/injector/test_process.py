"""The server as a process: it stops under load without losing a call, and hostile clients do not make it grow."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import random
import re
import signal
import ssl
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
import pytest
import trustme

from frameworkinjector.serving.run import DRAIN_SECONDS, STOP_SECONDS
from localcluster.ports import free_port
from testkit.waiting import eventually_async, patience
from tests.injector.golden_pods import pod_of
from tests.injector.loopback_server import head
from tests.injector.random_fuzzer import mutated, seeds
from tests.injector.replica_processes import Replica, manifests
from tests.injector.reviews import SERVICE, review_of
from tests.support.http import served_certificate, tls_session

if TYPE_CHECKING:
    from collections.abc import Iterator

HEADERS = {"Content-Type": "application/json"}
HEAD = head(100)


def write_certificate(authority: trustme.CA, folder: Path) -> None:
    """Write a new certificate for the Service and its key."""
    issued = authority.issue_cert(SERVICE)
    # As the kubelet updates a Secret: the two files change one after the other, within moments.
    (folder / "tls.crt").write_bytes(issued.cert_chain_pems[0].bytes())
    (folder / "tls.key").write_bytes(issued.private_key_pem.bytes())


@dataclass
class StandaloneReplica:
    """A replica that needs no API server: its certificate comes from files, and the authority that clients trust."""

    replica: Replica
    authority: trustme.CA
    folder: Path

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.replica.port}/mutate"

    def trust(self) -> ssl.SSLContext:
        return ssl.create_default_context(cadata=self.authority.cert_pem.bytes().decode())

    def memory(self, field: str = "VmRSS") -> int:
        """Return the resident memory in KiB, or by `VmHWM` its peak."""
        status = Path(f"/proc/{self.replica.process.pid}/status").read_text()
        found = re.search(rf"{field}:\s+(\d+) kB", status)
        assert found
        return int(found[1])

    def cpu_seconds(self) -> float:
        """Return the CPU time that the process has used."""
        fields = Path(f"/proc/{self.replica.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.fixture
def served(tmp_path: Path) -> Iterator[StandaloneReplica]:
    port, health_port = free_port(), free_port()
    log = tmp_path / "log"
    command = [sys.executable, "-m", "frameworkinjector", "serve", "--host=127.0.0.1"]
    command += ["--namespace=frameworkcontroller-system", f"--port={port}", f"--health-port={health_port}"]
    command += [f"--tls-cert-file={tmp_path}/tls.crt", f"--tls-key-file={tmp_path}/tls.key", "--env-files=quoted"]
    authority = trustme.CA()
    write_certificate(authority, tmp_path)
    with log.open("wb") as stderr:
        process = subprocess.Popen(command, stderr=stderr, env={**os.environ, "PYTHONWARNINGS": "error"})
    found = StandaloneReplica(Replica(process, port, health_port, log), authority, tmp_path)
    try:
        found.replica.wait_until_ready()
        yield found
    finally:
        if process.poll() is None:
            assert found.replica.stop() == 0
        assert "Traceback" not in log.read_text()


def golden_review() -> bytes:
    return review_of(pod_of("preset-tensorflow-file"))


async def test_after_sigterm_it_loses_no_call_and_exits(served: StandaloneReplica) -> None:
    failures: list[str] = []
    answered, refused = 0, asyncio.Event()
    sent = golden_review()

    async def client(session: aiohttp.ClientSession) -> None:
        nonlocal answered
        while not refused.is_set():
            try:
                async with session.post(served.url, data=sent, headers=HEADERS, server_hostname=SERVICE) as response:
                    await response.read()
                    if response.status != 200:
                        failures.append(str(response.status))
                    answered += 1
            except aiohttp.ClientConnectorError:
                # The listener is closed: the Service routes such calls to the other replica.
                refused.set()
            except aiohttp.ClientError as error:
                failures.append(repr(error))

    async with tls_session(served.trust(), limit=0) as session:
        clients = [asyncio.create_task(client(session)) for _ in range(20)]
        await asyncio.sleep(1)
        before = answered
        served.replica.process.send_signal(signal.SIGTERM)

        async def says_so() -> None:
            assert served.replica.health("/readyz") == (503, "not ready: stopping\n")

        await eventually_async(says_so)
        await asyncio.gather(*clients)
    assert await asyncio.to_thread(served.replica.process.wait, patience(10)) == 0
    # The ten seconds of the reference: the times that it gives itself, and little more.
    assert DRAIN_SECONDS + STOP_SECONDS < 9
    assert failures == []
    assert before > 0
    # It kept answering while nodes learn that it leaves the Service.
    assert answered > before


class Hostile:
    """Clients that misbehave, many of each kind at the same time."""

    def __init__(self, served: StandaloneReplica, session: aiohttp.ClientSession) -> None:
        self._served = served
        self._session = session
        self._draw, self._known = random.Random(1), seeds()
        self._hanging: list[asyncio.StreamWriter] = []

    async def round(self) -> set[int]:
        """Run clients of every kind; return the statuses of those that waited for an answer, 0 for none."""
        bodies = [mutated(self._known, self._draw) for _ in range(300)]
        huge = [
            b" " * (3 * 1024 * 1024 - 1),
            b"x" * (4 * 1024 * 1024),
            b"[" * 900_000,
            review_of({"x": "y" * 2_900_000}),
        ]
        await asyncio.gather(
            *(self._hang(one) for one in (None, b"", b"POST /mut", HEAD, HEAD + b"{") for _ in range(4))
        )
        await asyncio.gather(*(self._abort(one[:500]) for one in bodies[:50]))
        await asyncio.gather(*(self._garbage() for _ in range(20)))
        return set(await asyncio.gather(*(self.post(one) for one in (*bodies, *huge * 4))))

    async def post(self, sent: bytes) -> int:
        """Send a body, and return the status of the answer; 0 if the connection was closed."""
        try:
            async with self._session.post(
                self._served.url, data=io.BytesIO(sent), headers=HEADERS, server_hostname=SERVICE
            ) as response:
                await response.read()
                return response.status
        except aiohttp.ClientConnectionError:
            return 0

    async def _connect(self, *, tls: bool = True) -> asyncio.StreamWriter:
        trust, name = (self._served.trust(), SERVICE) if tls else (None, None)
        port = self._served.replica.port
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trust, server_hostname=name)
        return writer

    async def _hang(self, sent: bytes | None) -> None:
        """Send the beginning of a request and then nothing; with None not even a TLS handshake."""
        writer = await self._connect(tls=sent is not None)
        writer.write(sent or b"")
        self._hanging.append(writer)

    async def _abort(self, sent: bytes) -> None:
        with contextlib.suppress(OSError):
            writer = await self._connect()
            writer.write(b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n" + sent)
            writer.transport.abort()

    async def _garbage(self) -> None:
        """Send bytes that are not TLS."""
        with contextlib.suppress(OSError):
            writer = await self._connect(tls=False)
            writer.write(self._draw.randbytes(2000))
            await writer.drain()
            writer.close()

    def hang_up(self) -> None:
        """Abort the silent connections."""
        for writer in self._hanging:
            writer.transport.abort()


def memory_limit() -> int:
    """Return the memory limit of the container in the manifests, in KiB."""
    (deployment,) = [one for one in manifests() if one["kind"] == "Deployment"]
    limit: str = deployment["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["memory"]
    assert limit.endswith("Mi")
    return int(limit.removesuffix("Mi")) * 1024


async def test_hostile_clients_neither_stop_it_nor_make_it_grow(served: StandaloneReplica) -> None:
    async with tls_session(served.trust(), limit=20) as session:
        hostile = Hostile(served, session)
        # Until the memory that is kept has been allocated: some 90 MiB, whether after 12 rounds or 60.
        for _ in range(8):
            await hostile.round()
        before, statuses, costs = served.memory(), set[int](), list[float]()
        for _ in range(5):
            statuses |= await hostile.round()
            used = served.cpu_seconds()
            async with asyncio.timeout(patience(5)):
                assert await hostile.post(golden_review()) == 200
            costs.append(served.cpu_seconds() - used)
        grown = served.memory() - before
        hostile.hang_up()
    assert 200 in statuses
    assert all(status < 500 for status in statuses), statuses
    # The webhook's timeoutSeconds: the API server waits no longer. Of CPU time, which other processes do not take away.
    assert max(costs) < 5
    # Ten KiB for each client of these rounds would be more.
    assert grown < 20 * 1024, f"{grown} KiB"
    assert served.memory("VmHWM") < memory_limit()
    assert served.replica.process.poll() is None


async def test_files_that_change_are_served_and_files_that_do_not_fit_are_not(served: StandaloneReplica) -> None:
    first = await served_certificate(served.replica.port)
    (served.folder / "tls.key").write_bytes(trustme.CA().issue_cert(SERVICE).private_key_pem.bytes())

    async def logged() -> None:
        assert "certificate files not usable" in served.replica.log.read_text()

    await eventually_async(logged, timeout=15)
    assert await served_certificate(served.replica.port) == first
    assert served.replica.health("/readyz") == (200, "ok\n")
    write_certificate(served.authority, served.folder)

    async def replaced() -> None:
        assert await served_certificate(served.replica.port) != first

    await eventually_async(replaced, timeout=15)
