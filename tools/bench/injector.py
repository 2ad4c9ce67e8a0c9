"""The cost of an injection: reviews per second of one process, latency and memory.

The client shares the machine with the injector, so the throughput is a lower bound. Targets: at least 1,000 reviews a
second of a 10 KiB Pod on one core, p99 under 10 ms at 300 a second, memory under 80 MiB.
"""

import asyncio
import base64
import json
import time
from typing import Any

from bench.injector_load import Server, at_rate, idler, server, throughput
from bench.results import Results, flags, quantile
from bench.scene import cpu_seconds, new_cluster, peak_mib, resident_mib
from frameworkcontroller.api import names
from frameworkinjector.review.config import Config, EnvFiles
from frameworkinjector.review.reasons import Reason
from frameworkinjector.review.review import answer
from localcluster import Depth
from localcluster.client import RawClient

NAMESPACE = "bench-injector"
POD_BYTES = 10 * 1024
SECONDS = 10.0
"""Of each load."""
RATE = 300.0
"""Reviews a second."""
CREATES = 500
"""Of a Pod at the API server, of each kind."""
_WARM_UP = 20
_CONFIGURATION = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/bench"
Columns = dict[str, object]


def main() -> None:
    """Measure everything and print a table."""
    flags(__doc__).parse_args()
    body = review()
    alone = function_rate(body, SECONDS / 3)
    with server() as target:
        process = target.process
        figures: Columns = {"MiB at the start": round(resident_mib(process))}
        before = cpu_seconds(process)
        rate = asyncio.run(throughput(target, body, SECONDS))
        of_a_core = rate * SECONDS / (cpu_seconds(process) - before)
        with idler(SECONDS) as idle:
            latencies = asyncio.run(at_rate(target, body, RATE, SECONDS))
            late = float(idle.communicate()[0])
        figures |= {"reviews/s": round(rate), "reviews/s of a core": round(of_a_core)}
        figures |= {**_quantiles("review", latencies), "wake-up p99 ms": late}
        with new_cluster("bench-injector", Depth.CONTROL_PLANE, NAMESPACE) as (cluster, raw):
            figures |= creates(target, raw)
        figures |= {"peak MiB": round(peak_mib(process)), "then MiB": round(resident_mib(process))}
    results, shape = Results("injector"), f"review:{round(len(body) / 1024)}KiB@{RATE:g}"
    results.add(shape, "the function alone", {"reviews/s": round(alone)}, cluster.version)
    results.add(shape, "injector", figures, cluster.version)
    results.show()


def pod(*, labelled: bool = True) -> dict[str, Any]:
    """Return a Pod of a Framework of about 10 KiB, with two containers and their environments."""
    labels = {names.FRAMEWORK_NAME: "mnist", names.TASKROLE_NAME: "worker", names.TASK_INDEX: "1"}
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
        labels[names.BARRIER_LABEL] = "enabled"
    annotations["padding"] = "x" * max(0, POD_BYTES - len(json.dumps(found)))
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


def creates(target: Server, raw: RawClient) -> Columns:
    """Measure dry-run creates at a real API server, with the label and without it in turn; return columns."""
    webhook = {
        "name": "bench.frameworkcontroller.microsoft.com",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "clientConfig": {
            "url": f"https://127.0.0.1:{target.port}/mutate",
            "caBundle": base64.b64encode(target.trust).decode(),
        },
        "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}],
        "objectSelector": {"matchLabels": {names.BARRIER_LABEL: "enabled"}},
    }
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration"}
    raw.apply(_CONFIGURATION, {**kind, "metadata": {"name": "bench"}, "webhooks": [webhook]})
    time.sleep(2)
    found: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(CREATES + _WARM_UP):
        for labelled, times in found.items():
            body, begun = pod(labelled=labelled), time.perf_counter()
            created = raw.create(f"/api/v1/namespaces/{NAMESPACE}/pods?dryRun=All", body)
            times.append(time.perf_counter() - begun)
            assert ("initContainers" in created["spec"]) is labelled
    with_label, without = (times[_WARM_UP:] for times in found.values())
    return {**_quantiles("create", with_label), **_quantiles("create without", without)}


def _quantiles(what: str, seconds: list[float]) -> Columns:
    return {f"{what} p{share} ms": 1000 * quantile(seconds, share / 100) for share in (50, 99)}


if __name__ == "__main__":
    main()
