"""An injector in a process of its own, and the load on it: connections that are always busy, or a steady rate."""

import asyncio
import contextlib
import re
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
import trustme

from bench.scene import program
from localcluster.processes.ports import free_port

NAME = "frameworkinjector.frameworkcontroller-system.svc"
CONNECTIONS = 8


@dataclass
class Server:
    """An injector process, the port of its webhook, and the certificate authority that it is trusted by, in PEM."""

    process: psutil.Process
    port: int
    trust: bytes


@contextlib.contextmanager
def server() -> Iterator[Server]:
    """Run an injector for the block."""
    authority = trustme.CA()
    issued = authority.issue_cert(NAME, "127.0.0.1")
    port, health = free_port(), free_port()
    with TemporaryDirectory() as name:
        certificate, key = Path(name) / "tls.crt", Path(name) / "tls.key"
        issued.cert_chain_pems[0].write_to_path(certificate)
        issued.private_key_pem.write_to_path(key)
        flags = ["serve", "--env-files=quoted", "--host=127.0.0.1", f"--port={port}", f"--health-port={health}"]
        flags += [f"--tls-cert-file={certificate}", f"--tls-key-file={key}", "--namespace=frameworkcontroller-system"]
        # As in deploy/install.yaml.
        environ = {"MALLOC_MMAP_THRESHOLD_": "131072", "MALLOC_TRIM_THRESHOLD_": "131072"}
        with program("frameworkinjector", Path(name), health, *flags, **environ) as process:
            yield Server(process, port, authority.cert_pem.bytes())


class Client:
    """One kept-alive connection, as light as possible, so that the benchmark measures the server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, body: bytes) -> None:
        self._reader, self._writer = reader, writer
        head = f"POST /mutate HTTP/1.1\r\nHost: {NAME}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
        self._request = head.encode() + b"\r\n\r\n" + body

    @classmethod
    async def open(cls, target: Server, body: bytes) -> "Client":
        """Connect and do the TLS handshake."""
        context = ssl.create_default_context(cadata=target.trust.decode())
        streams = await asyncio.open_connection("127.0.0.1", target.port, ssl=context, server_hostname=NAME)
        return cls(*streams, body)

    async def call(self) -> None:
        """Send one review and wait until the whole answer has arrived."""
        self._writer.write(self._request)
        head = await self._reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 "), head
        found = re.search(rb"Content-Length: (\d+)", head)
        assert found
        await self._reader.readexactly(int(found[1]))

    def close(self) -> None:
        """Close the connection."""
        self._writer.close()


async def throughput(target: Server, body: bytes, seconds: float) -> float:
    """Return the reviews per second while every connection is always busy."""
    clients = [await Client.open(target, body) for _ in range(CONNECTIONS)]
    end = time.perf_counter() + seconds

    async def work(client: Client) -> int:
        count = 0
        while time.perf_counter() < end:
            await client.call()
            count += 1
        client.close()
        return count

    return sum(await asyncio.gather(*map(work, clients))) / seconds


async def at_rate(target: Server, body: bytes, rate: float, seconds: float) -> list[float]:
    """Return the latencies of calls that start at a steady rate, waits for a free connection included."""
    idle: asyncio.Queue[Client] = asyncio.Queue()
    for _ in range(CONNECTIONS * 4):
        idle.put_nowait(await Client.open(target, body))
    latencies: list[float] = []

    async def call(due: float) -> None:
        client = await idle.get()
        await client.call()
        latencies.append(time.perf_counter() - due)
        idle.put_nowait(client)

    start = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for number in range(int(rate * seconds)):
            due = start + number / rate
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            group.create_task(call(due))
    while not idle.empty():
        idle.get_nowait().close()
    return latencies


_IDLE = """
import time, sys
end, late = time.monotonic() + float(sys.argv[1]), []
while time.monotonic() < end:
    due = time.monotonic() + 0.005
    time.sleep(0.005)
    late.append(time.monotonic() - due)
print(sorted(late)[int(len(late) * 0.99)] * 1000)
"""


def idler(seconds: float) -> subprocess.Popen[str]:
    """Start a process that only sleeps, for so long, and prints by how many milliseconds it wakes up late (p99).

    This is the part of every latency here that other work on this machine causes.
    """
    return subprocess.Popen([sys.executable, "-c", _IDLE, str(seconds)], stdout=subprocess.PIPE, text=True)
