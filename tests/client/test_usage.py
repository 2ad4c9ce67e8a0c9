"""What Tasks use, from what metrics-server says."""

from __future__ import annotations

import json
from typing import Any

from frameworkclient.usage import POD_METRICS_DECODER, PodMetrics, usages
from tests.client.documents import pod


def metrics(name: str, *containers: tuple[str, str]) -> PodMetrics:
    document: dict[str, Any] = {
        "kind": "PodMetrics",
        "metadata": {"name": name, "namespace": "demo", "creationTimestamp": "2026-01-01T12:00:00Z"},
        "timestamp": "2026-01-01T12:00:00Z",
        "window": "15.1s",
        "containers": [
            {"name": f"c{number}", "usage": {"cpu": cpu, "memory": memory}}
            for number, (cpu, memory) in enumerate(containers)
        ],
    }
    return POD_METRICS_DECODER.decode(json.dumps(document))


def test_the_containers_of_a_pod_are_added_up_in_cores_and_bytes() -> None:
    (found,) = usages([pod("worker-0")], [metrics("training-worker-0", ("1204370123n", "1048576Ki"), ("250m", "1Gi"))])
    assert (found.task, found.cpu_text, found.memory_text) == ("worker-0", "1454m", "2048Mi")
    assert found.memory == 2 << 30
    assert found.cpu is not None
    assert abs(found.cpu - 1.454370123) < 1e-9


def test_a_pod_that_is_not_measured_and_one_with_a_strange_amount_have_none() -> None:
    pods = [pod("worker-0"), pod("worker-1"), pod("worker-2")]
    found = usages(pods, [metrics("training-worker-1", ("much", "1Ki")), metrics("training-worker-2"), metrics("x")])
    assert [(one.task, one.cpu_text, one.memory_text) for one in found] == [
        ("worker-0", "-", "-"),
        ("worker-1", "-", "-"),
        ("worker-2", "0m", "0Mi"),
    ]
