"""Estimate pi on the workers of a Ray cluster, and fail unless all workers take part and pi is right."""

import collections
import random
import time
from pathlib import Path

import ray

WORKERS = Path("/mnt/frameworkbarrier/worker.hosts")
PARTS, POINTS, PAUSE, PATIENCE = 20, 100_000, 1.0, 600


@ray.remote(num_cpus=1)
def hits(part: int) -> tuple[str, int]:
    """Return the address of the node that computes a part, and how many of its random points lie within the circle."""
    source = random.Random(part)
    inside = sum(source.random() ** 2 + source.random() ** 2 < 1 for _ in range(POINTS))
    time.sleep(PAUSE)
    return ray.util.get_node_ip_address(), inside


def main() -> None:
    """Wait for the workers, and compute."""
    # A worker that is replaced has another address than the barrier has written.
    workers = len(WORKERS.read_text().split())
    # Ray reads RAY_ADDRESS by itself.
    ray.init(log_to_driver=False)
    deadline = time.monotonic() + PATIENCE
    while ray.cluster_resources().get("CPU", 0) < workers and time.monotonic() < deadline:
        time.sleep(PAUSE)
    print(f"{workers} workers, Ray {ray.__version__}", flush=True)
    results = ray.get([hits.remote(part) for part in range(PARTS)])
    parts = collections.Counter(address for address, _ in results)
    for address, number in sorted(parts.items()):
        print(f"{address} computed {number} of {PARTS} parts", flush=True)
    pi = 4 * sum(count for _, count in results) / (PARTS * POINTS)
    assert len(parts) >= workers, parts
    assert abs(pi - 3.14159) < 0.01, pi
    print(f"pi is about {pi:.4f}", flush=True)


if __name__ == "__main__":
    main()
