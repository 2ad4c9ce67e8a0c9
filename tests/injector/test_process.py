"""The server as a process: it leaves under load without losing a call, and hostile clients do not make it grow."""

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
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
import pytest
import trustme

from injector.fuzz import mutated, review_of, seeds
from injector.goldens import pod_of
from injector.replicas import Replica, manifests
from localcluster.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = "frameworkinjector.frameworkcontroller-system.svc"
HEADERS = {"Content-Type": "application/json"}
HEAD = b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n"


@dataclass
class Served:
    """A replica that needs no API server, and who trusts it."""

    replica: Replica
    authority: trustme.CA
    folder: Path

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.replica.port}/mutate"

    def trust(self) -> ssl.SSLContext:
        return ssl.create_default_context(cadata=self.authority.cert_pem.bytes().decode())

    def write(self, authority: trustme.CA | None = None) -> None:
        issued = (authority or self.authority).issue_cert(NAME)
        # As the kubelet does with a Secret: never half a pair for long, but not both at once either.
        (self.folder / "tls.crt").write_bytes(issued.cert_chain_pems[0].bytes())
        (self.folder / "tls.key").write_bytes(issued.private_key_pem.bytes())

    def memory(self, field: str = "VmRSS") -> int:
        """Resident, or by ``VmHWM`` the most that ever was, in KiB."""
        status = Path(f"/proc/{self.replica.process.pid}/status").read_text()
        found = re.search(rf"{field}:\s+(\d+) kB", status)
        assert found
        return int(found[1])


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    port, health_port = free_port(), free_port()
    log = tmp_path / "log"
    command = [sys.executable, "-m", "frameworkinjector", "serve", "--host=127.0.0.1"]
    command += ["--namespace=frameworkcontroller-system", f"--port={port}", f"--health-port={health_port}"]
    command += [f"--tls-cert-file={tmp_path}/tls.crt", f"--tls-key-file={tmp_path}/tls.key", "--env-files=quoted"]
    found = Served(None, trustme.CA(), tmp_path)  # type: ignore[arg-type]
    found.write()
    with log.open("wb") as stderr:
        process = subprocess.Popen(command, stderr=stderr, env={**os.environ, "PYTHONWARNINGS": "error"})
    found.replica = Replica(process, port, health_port, log)
    try:
        found.replica.wait_until_ready()
        yield found
    finally:
        if process.poll() is None:
            assert found.replica.stop() == 0
        assert "Traceback" not in log.read_text()


def body() -> bytes:
    return review_of(pod_of("preset-tensorflow-file"))


async def test_it_leaves_within_ten_seconds_of_sigterm_and_loses_no_call(served: Served) -> None:
    failures: list[str] = []
    answered, refused = 0, asyncio.Event()
    sent = body()

    async def client(session: aiohttp.ClientSession) -> None:
        nonlocal answered
        while not refused.is_set():
            try:
                async with session.post(served.url, data=sent, headers=HEADERS, server_hostname=NAME) as response:
                    await response.read()
                    if response.status != 200:
                        failures.append(str(response.status))
                    answered += 1
            except aiohttp.ClientConnectorError:
                # Nobody listens any more: the Service sends such calls to the other replica.
                refused.set()
            except aiohttp.ClientError as error:
                failures.append(repr(error))

    connector = aiohttp.TCPConnector(ssl=served.trust(), limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        clients = [asyncio.create_task(client(session)) for _ in range(20)]
        await asyncio.sleep(1)
        before, started = answered, time.monotonic()
        served.replica.process.send_signal(signal.SIGTERM)
        await asyncio.sleep(0.5)
        assert served.replica.health("/readyz") == (503, "not ready: stopping\n")
        await asyncio.gather(*clients)
    assert await asyncio.to_thread(served.replica.process.wait, 10) == 0
    assert time.monotonic() - started < 10
    assert failures == []
    assert before > 0
    # It went on answering while nodes hear that it leaves.
    assert answered > before


class Hostile:
    """Clients that nobody wants, many of each at once."""

    def __init__(self, served: Served, session: aiohttp.ClientSession) -> None:
        self._served = served
        self._session = session
        self._draw, self._known = random.Random(1), seeds()
        self._hanging: list[asyncio.StreamWriter] = []

    async def round(self) -> set[int]:
        """One of everything; the statuses of those that waited for an answer, 0 for none."""
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
        """Asks and waits for the answer."""
        try:
            async with self._session.post(
                self._served.url, data=io.BytesIO(sent), headers=HEADERS, server_hostname=NAME
            ) as response:
                await response.read()
                return response.status
        except aiohttp.ClientConnectionError:
            return 0

    async def _connect(self, *, tls: bool = True) -> asyncio.StreamWriter:
        trust, name = (self._served.trust(), NAME) if tls else (None, None)
        port = self._served.replica.port
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trust, server_hostname=name)
        return writer

    async def _hang(self, sent: bytes | None) -> None:
        """Says the beginning of something and then nothing, or not even a handshake."""
        writer = await self._connect(tls=sent is not None)
        writer.write(sent or b"")
        self._hanging.append(writer)

    async def _abort(self, sent: bytes) -> None:
        with contextlib.suppress(OSError):
            writer = await self._connect()
            writer.write(b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n" + sent)
            writer.transport.abort()

    async def _garbage(self) -> None:
        """What is no TLS."""
        with contextlib.suppress(OSError):
            writer = await self._connect(tls=False)
            writer.write(self._draw.randbytes(2000))
            await writer.drain()
            writer.close()

    def hang_up(self) -> None:
        """The silent ones that are still there."""
        for writer in self._hanging:
            writer.transport.abort()


def memory_limit() -> int:
    """Of the container in the manifests, in KiB."""
    (deployment,) = [one for one in manifests() if one["kind"] == "Deployment"]
    limit: str = deployment["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["memory"]
    assert limit.endswith("Mi")
    return int(limit.removesuffix("Mi")) * 1024


async def test_hostile_clients_neither_stop_it_nor_make_it_grow(served: Served) -> None:
    connector = aiohttp.TCPConnector(ssl=served.trust(), limit=20)
    async with aiohttp.ClientSession(connector=connector) as session:
        hostile = Hostile(served, session)
        # The memory that is taken once and kept: some 90 MiB, whether after 12 rounds or 60.
        for _ in range(8):
            await hostile.round()
        before, statuses, slowest = served.memory(), set[int](), 0.0
        for _ in range(5):
            statuses |= await hostile.round()
            started = time.monotonic()
            assert await hostile.post(body()) == 200
            slowest = max(slowest, time.monotonic() - started)
        grown = served.memory() - before
        hostile.hang_up()
    assert 200 in statuses
    assert all(status < 500 for status in statuses), statuses
    # What the API server waits for, the webhook's timeoutSeconds.
    assert slowest < 5
    # Ten KiB for each client of these rounds would be more.
    assert grown < 20 * 1024, f"{grown} KiB"
    assert served.memory("VmHWM") < memory_limit()
    assert served.replica.process.poll() is None


async def serial(served: Served) -> bytes:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    _, writer = await asyncio.open_connection("127.0.0.1", served.replica.port, ssl=context)
    found: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return found


async def test_files_that_change_are_served_and_files_that_do_not_fit_are_not(served: Served) -> None:
    first = await serial(served)
    (served.folder / "tls.key").write_bytes(trustme.CA().issue_cert(NAME).private_key_pem.bytes())

    async def told(text: str) -> None:
        async with asyncio.timeout(15):
            while text not in served.replica.log.read_text():  # noqa: ASYNC110 -- another process tells
                await asyncio.sleep(0.1)

    await told("certificate not usable, the last good one is still served")
    assert await serial(served) == first
    assert served.replica.health("/readyz") == (200, "ok\n")
    served.write()
    async with asyncio.timeout(15):
        while await serial(served) == first:  # noqa: ASYNC110 -- another process changes it
            await asyncio.sleep(0.1)


def test_metrics_show_outcomes_and_the_certificates_end(served: Served) -> None:
    status, text = served.replica.health("/metrics")
    assert status == 200
    assert 'frameworkinjector_requests_total{outcome="refused",reason="bad-value"} 0.0' in text
    assert "frameworkinjector_request_duration_seconds_bucket" in text
    assert "frameworkinjector_certificate_expiry_timestamp_seconds" in text
    assert served.replica.health("/other")[0] == 404
