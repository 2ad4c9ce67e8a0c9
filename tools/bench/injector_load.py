"""An injector in a process of its own, and the load on it: connections that are always busy, or a steady rate."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import ssl
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass
from typing import TYPE_CHECKING

import trustme

from localcluster.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NAME = "frameworkinjector.frameworkcontroller-system.svc"
CONNECTIONS = 8


@dataclass
class Server:
    """An injector process that serves a certificate from files.

    Attributes:
        process: The process.
        port: The port of the webhook.
        trust: The certificate authority, in PEM.
    """

    process: subprocess.Popen[bytes]
    port: int
    trust: bytes


@contextlib.contextmanager
def server(folder: Path) -> Iterator[Server]:
    """Start the injector, wait until it is ready, and stop it at the end."""
    authority = trustme.CA()
    issued = authority.issue_cert(NAME, "127.0.0.1")
    (folder / "tls.crt").write_bytes(issued.cert_chain_pems[0].bytes())
    (folder / "tls.key").write_bytes(issued.private_key_pem.bytes())
    port, health = free_port(), free_port()
    command = [sys.executable, "-m", "frameworkinjector", "serve", "--env-files=quoted", "--host=127.0.0.1"]
    command += [f"--tls-cert-file={folder}/tls.crt", f"--tls-key-file={folder}/tls.key", f"--port={port}"]
    command += [f"--health-port={health}", "--namespace=frameworkcontroller-system"]
    # As in deploy/install.yaml.
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "131072", "MALLOC_TRIM_THRESHOLD_": "131072"}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stderr=log, env=environment)
    try:
        for _ in range(200):
            with contextlib.suppress(OSError):
                if urllib.request.urlopen(f"http://127.0.0.1:{health}/readyz", timeout=5).status == 200:
                    break
            time.sleep(0.05)
        else:
            raise RuntimeError((folder / "log").read_text())
        yield Server(process, port, authority.cert_pem.bytes())
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(15)


class Client:
    """One kept-alive connection, as light as possible, so that the benchmark measures the server."""

    def __init__(self, target: Server, body: bytes) -> None:
        self._target = target
        head = f"POST /mutate HTTP/1.1\r\nHost: {NAME}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
        self._request = head.encode() + b"\r\n\r\n" + body

    async def open(self) -> None:
        """Connect and do the TLS handshake."""
        context = ssl.create_default_context(cadata=self._target.trust.decode())
        self._reader, self._writer = await asyncio.open_connection(
            "127.0.0.1", self._target.port, ssl=context, server_hostname=NAME
        )

    async def call(self) -> float:
        """Send one review and return the seconds until the whole answer has arrived."""
        started = time.perf_counter()
        self._writer.write(self._request)
        head = await self._reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 "), head
        found = re.search(rb"Content-Length: (\d+)", head)
        assert found
        await self._reader.readexactly(int(found[1]))
        return time.perf_counter() - started

    def close(self) -> None:
        """Close the connection."""
        self._writer.close()


async def throughput(target: Server, body: bytes, seconds: float) -> float:
    """Return the reviews per second while every connection is always busy."""
    clients = [Client(target, body) for _ in range(CONNECTIONS)]
    await asyncio.gather(*(client.open() for client in clients))
    end, counts = time.perf_counter() + seconds, [0] * CONNECTIONS

    async def work(number: int) -> None:
        while time.perf_counter() < end:
            await clients[number].call()
            counts[number] += 1

    await asyncio.gather(*(work(number) for number in range(CONNECTIONS)))
    for client in clients:
        client.close()
    return sum(counts) / seconds


async def at_rate(target: Server, body: bytes, rate: float, seconds: float) -> list[float]:
    """Return the latencies of calls that start at a steady rate, waits for a free connection included."""
    idle: asyncio.Queue[Client] = asyncio.Queue()
    for _ in range(CONNECTIONS * 4):
        client = Client(target, body)
        await client.open()
        idle.put_nowait(client)
    latencies: list[float] = []

    async def call(due: float) -> None:
        client = await idle.get()
        await client.call()
        latencies.append(time.perf_counter() - due)
        idle.put_nowait(client)

    start, tasks = time.perf_counter(), []
    for number in range(int(rate * seconds)):
        due = start + number / rate
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        tasks.append(asyncio.create_task(call(due)))
    await asyncio.gather(*tasks)
    while not idle.empty():
        idle.get_nowait().close()
    return latencies


class Idler:
    """A process that only sleeps and measures how late it wakes up."""

    program = (
        "import time, sys\n"
        "end, late = time.monotonic() + float(sys.argv[1]), []\n"
        "while time.monotonic() < end:\n"
        "    due = time.monotonic() + 0.005; time.sleep(0.005); late.append(time.monotonic() - due)\n"
        "print(sorted(late)[int(len(late) * 0.99)] * 1000)"
    )

    def __init__(self, seconds: float) -> None:
        self._process = subprocess.Popen([sys.executable, "-c", self.program, str(seconds)], stdout=subprocess.PIPE)

    def p99(self) -> float:
        """Return the 99th percentile in milliseconds."""
        return float(self._process.communicate()[0])
