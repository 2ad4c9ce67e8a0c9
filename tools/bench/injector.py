"""The cost of an injection: reviews per second of one process, latency and memory.

    python tools/bench/injector.py [--seconds 10] [--rate 300] [--no-cluster] [--json FILE]

The client shares the machine with the injector, so the throughput is a lower bound. Targets: at least 1,000 reviews a
second of a 10 KiB Pod on one core, p99 under 10 ms at 300 a second, memory under 80 MiB.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import statistics
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from injector_load import Idler, Server, at_rate, server, throughput
from proc import cpu_seconds, memory_mib

import localcluster
from frameworkinjector.config import Config, EnvFiles
from frameworkinjector.reasons import Reason
from frameworkinjector.review import answer
from localcluster import Depth
from localcluster.client import RawClient

LABEL = "frameworkcontroller.microsoft.com/barrier"
POD_BYTES = 10 * 1024


@dataclass
class Results:
    """Times in milliseconds, memory in MiB.

    `machine_p99` is how late an idle process wakes up while the rate is kept: the part of every latency here that other
    work on this machine causes.
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
    """Return a Pod of a Framework of about 10 KiB, with two containers and their environments."""
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
    """Return the AdmissionReview that the API server sends for the Pod."""
    request = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "operation": "CREATE",
        "namespace": "default",
        "object": pod(),
    }
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()


def function_rate(body: bytes, seconds: float) -> float:
    """Return the reviews per second of the function alone, without a server."""
    config, count = Config(version="bench"), 0
    assert answer(body, config, EnvFiles.QUOTED).verdict.reason is Reason.INJECTED
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for _ in range(100):
            answer(body, config, EnvFiles.QUOTED)
        count += 100
    return count / seconds


def quantile(values: list[float], share: float) -> float:
    """Return a quantile of seconds, in milliseconds."""
    return statistics.quantiles(values, n=1000, method="inclusive")[int(share * 1000) - 1] * 1000


def creates(target: Server, results: Results, count: int) -> None:
    """Measure dry-run creates at a real API server, with the label and without it in turn."""
    cluster = localcluster.up("bench-injector", Depth.CONTROL_PLANE)
    raw = RawClient(cluster)
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
    """Measure everything and print a table."""
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
        results.memory_start = memory_mib(target.process.pid, "VmRSS")
        before = cpu_seconds(target.process.pid)
        results.served_reviews_per_second = asyncio.run(throughput(target, body, options.seconds))
        spent = cpu_seconds(target.process.pid) - before
        results.server_cpu_ms_per_review = spent / (results.served_reviews_per_second * options.seconds) * 1000
        results.reviews_per_second_of_a_core = 1000 / results.server_cpu_ms_per_review
        idler = Idler(options.seconds)
        latencies = asyncio.run(at_rate(target, body, options.rate, options.seconds))
        results.machine_p99 = idler.p99()
        results.rate_p50, results.rate_p99 = quantile(latencies, 0.5), quantile(latencies, 0.99)
        if not options.no_cluster:
            creates(target, results, options.creates)
        results.memory_end, results.memory_peak = (
            memory_mib(target.process.pid, "VmRSS"),
            memory_mib(target.process.pid, "VmHWM"),
        )
    for name, value in asdict(results).items():
        print(f"{name:32} {value:10.2f}")
    if options.json:
        options.json.write_text(json.dumps(asdict(results)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
