"""What an injection costs: reviews per second of one process, latency at a steady rate and at the API server, memory.

    python bench/injector.py [--seconds 10] [--rate 300] [--no-cluster] [--json FILE]

The client runs on the same machine and takes its share: the throughput is a floor. Targets: at least 1,000 reviews
a second of a 10 KiB Pod on one core, p99 under 10 ms at 300 a second, memory under 80 MiB.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import json
import os
import re
import signal
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trustme

import localcluster
from frameworkinjector.config import Config, EnvFiles
from frameworkinjector.reasons import Reason
from frameworkinjector.review import answer
from localcluster import Depth
from support.raw import Raw

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = "frameworkinjector.frameworkcontroller-system.svc"
LABEL = "frameworkcontroller.microsoft.com/barrier"
POD_BYTES = 10 * 1024
CONNECTIONS = 8


@dataclass
class Results:
    """Times in milliseconds, memory in MiB.

    ``machine_p99`` is how late a process that does nothing wakes up while the rate is kept: what other work on this
    machine adds to every latency here.
    """

    body_bytes: int = 0
    function_reviews_per_second: float = 0.0
    served_reviews_per_second: float = 0.0
    server_cpu_ms_per_review: float = 0.0
    reviews_per_second_of_a_core: float = 0.0
    rate: float = 0.0
    rate_p50: float = 0.0
    rate_p99: float = 0.0
    machine_p99: float = 0.0
    create_p50_without: float = 0.0
    create_p50_with: float = 0.0
    create_p99_without: float = 0.0
    create_p99_with: float = 0.0
    memory_start: float = 0.0
    memory_end: float = 0.0
    memory_peak: float = 0.0


def pod(*, labelled: bool = True) -> dict[str, Any]:
    """A Pod of a Framework of about 10 KiB: several containers with environments, as the API server sends it."""
    labels = {"FC_FRAMEWORK_NAME": "mnist", "FC_TASKROLE_NAME": "worker", "FC_TASK_INDEX": "1"}
    annotations = {
        **labels,
        "FC_FRAMEWORK_NAMESPACE": "default",
        "FC_TASK_ATTEMPT_ID": "0",
        "barrier.frameworkcontroller.microsoft.com/preset": "pytorch",
    }
    env = [{"name": f"SETTING_{number}", "value": "x" * 40} for number in range(60)]
    containers = [
        {"name": name, "image": "example.org/train:1", "command": ["python", "train.py"], "env": env}
        for name in ("app", "exporter")
    ]
    found: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "bench", "labels": labels, "annotations": annotations},
        "spec": {"containers": containers},
    }
    if labelled:
        labels[LABEL] = "enabled"
    found["metadata"]["annotations"]["padding"] = "x" * max(0, POD_BYTES - len(json.dumps(found)))
    return found


def review() -> bytes:
    """The request that the API server makes for it."""
    request = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "operation": "CREATE",
        "namespace": "default",
        "object": pod(),
    }
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()


def function_rate(body: bytes, seconds: float) -> float:
    """Reviews per second without a server."""
    config, count = Config(version="bench"), 0
    assert answer(body, config, EnvFiles.QUOTED).verdict.reason is Reason.INJECTED
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for _ in range(100):
            answer(body, config, EnvFiles.QUOTED)
        count += 100
    return count / seconds


@dataclass
class Server:
    """An injector process that serves a certificate from files."""

    process: subprocess.Popen[bytes]
    port: int
    trust: bytes

    def memory(self, field: str) -> float:
        """``VmRSS`` or ``VmHWM`` in MiB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(rf"{field}:\s+(\d+) kB", status)
        assert found
        return int(found[1]) / 1024

    def cpu_seconds(self) -> float:
        """User and system time so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def free_port() -> int:
    """One that nobody listens on now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@contextlib.contextmanager
def server(folder: Path) -> Iterator[Server]:
    """Starts the injector and waits until it is ready."""
    authority = trustme.CA()
    issued = authority.issue_cert(NAME, "127.0.0.1")
    (folder / "tls.crt").write_bytes(issued.cert_chain_pems[0].bytes())
    (folder / "tls.key").write_bytes(issued.private_key_pem.bytes())
    port, health = free_port(), free_port()
    command = [sys.executable, "-m", "frameworkinjector", "serve", "--env-files=quoted", "--host=127.0.0.1"]
    command += [f"--tls-cert-file={folder}/tls.crt", f"--tls-key-file={folder}/tls.key", f"--port={port}"]
    command += [f"--health-port={health}", "--namespace=frameworkcontroller-system"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stderr=log)
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
    """One kept-alive connection, as light as can be, so that the server is what is measured."""

    def __init__(self, target: Server, body: bytes) -> None:
        self._target = target
        head = f"POST /mutate HTTP/1.1\r\nHost: {NAME}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
        self._request = head.encode() + b"\r\n\r\n" + body

    async def open(self) -> None:
        """Shakes hands."""
        context = ssl.create_default_context(cadata=self._target.trust.decode())
        self._reader, self._writer = await asyncio.open_connection(
            "127.0.0.1", self._target.port, ssl=context, server_hostname=NAME
        )

    async def call(self) -> float:
        """One review; seconds until the whole answer is there."""
        started = time.perf_counter()
        self._writer.write(self._request)
        head = await self._reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 "), head
        found = re.search(rb"Content-Length: (\d+)", head)
        assert found
        await self._reader.readexactly(int(found[1]))
        return time.perf_counter() - started

    def close(self) -> None:
        """Hangs up."""
        self._writer.close()


async def throughput(target: Server, body: bytes, seconds: float) -> float:
    """Reviews per second with every connection always busy."""
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
    """Latencies when calls start at a steady rate, whether or not earlier ones were answered; waiting counts."""
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
    """A process that only sleeps, and says how late it woke."""

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
        """In milliseconds."""
        return float(self._process.communicate()[0])


def quantile(values: list[float], share: float) -> float:
    """In milliseconds."""
    return statistics.quantiles(values, n=1000, method="inclusive")[int(share * 1000) - 1] * 1000


def creates(target: Server, results: Results, count: int) -> None:
    """Latency of a dry-run create at a real API server, with the label and without, one after the other in turn."""
    cluster = localcluster.up("bench-injector", Depth.CONTROL_PLANE)
    raw = Raw(cluster)
    configurations = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
    webhook = {
        "name": "bench.frameworkcontroller.microsoft.com",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "clientConfig": {
            "url": f"https://127.0.0.1:{target.port}/mutate",
            "caBundle": base64.b64encode(target.trust).decode(),
        },
        "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}],
        "objectSelector": {"matchLabels": {LABEL: "enabled"}},
    }
    kind = "MutatingWebhookConfiguration"
    document = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": "bench"}}
    raw.apply(f"{configurations}/bench", {**document, "webhooks": [webhook]})
    time.sleep(2)
    found: dict[bool, list[float]] = {True: [], False: []}
    path = "/api/v1/namespaces/default/pods?dryRun=All"
    for number in range(2 * count + 40):
        labelled = number % 2 == 0
        body = pod(labelled=labelled)
        started = time.perf_counter()
        created = raw.create(path, body)
        elapsed = time.perf_counter() - started
        assert ("initContainers" in created["spec"]) is labelled
        if number >= 40:
            found[labelled].append(elapsed)
    raw.delete(f"{configurations}/bench")
    raw.close()
    localcluster.down("bench-injector")
    results.create_p50_without, results.create_p99_without = quantile(found[False], 0.5), quantile(found[False], 0.99)
    results.create_p50_with, results.create_p99_with = quantile(found[True], 0.5), quantile(found[True], 0.99)


def main() -> int:
    """Measures all and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rate", type=float, default=300.0)
    parser.add_argument("--creates", type=int, default=500)
    parser.add_argument("--no-cluster", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    body, results = review(), Results(rate=options.rate)
    results.body_bytes = len(body)
    results.function_reviews_per_second = function_rate(body, options.seconds / 3)
    with tempfile.TemporaryDirectory() as folder, server(Path(folder)) as target:
        results.memory_start = target.memory("VmRSS")
        before = target.cpu_seconds()
        results.served_reviews_per_second = asyncio.run(throughput(target, body, options.seconds))
        spent = target.cpu_seconds() - before
        results.server_cpu_ms_per_review = spent / (results.served_reviews_per_second * options.seconds) * 1000
        results.reviews_per_second_of_a_core = 1000 / results.server_cpu_ms_per_review
        idler = Idler(options.seconds)
        latencies = asyncio.run(at_rate(target, body, options.rate, options.seconds))
        results.machine_p99 = idler.p99()
        results.rate_p50, results.rate_p99 = quantile(latencies, 0.5), quantile(latencies, 0.99)
        if not options.no_cluster:
            creates(target, results, options.creates)
        results.memory_end, results.memory_peak = target.memory("VmRSS"), target.memory("VmHWM")
    for name, value in asdict(results).items():
        print(f"{name:32} {value:10.2f}")
    if options.json:
        options.json.write_text(json.dumps(asdict(results), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
