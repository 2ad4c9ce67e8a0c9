"""Estimate pi on the workers of a Dask cluster, and fail unless all workers take part and pi is right."""

import random
from pathlib import Path

from distributed import Client, get_worker

WORKERS = Path("/mnt/frameworkbarrier/worker.hosts")
PARTS, POINTS, PATIENCE = 40, 50_000, "600s"


def hits(part: int) -> tuple[str, int]:
    """Return the worker that computes a part, and how many of its random points lie within the circle."""
    source = random.Random(part)
    return get_worker().name, sum(source.random() ** 2 + source.random() ** 2 < 1 for _ in range(POINTS))


def main() -> None:
    """Wait for the workers, whose number the barrier says, and compute."""
    workers = len(WORKERS.read_text().split())
    # Dask reads DASK_SCHEDULER_ADDRESS by itself.
    with Client(timeout=PATIENCE) as client:
        client.wait_for_workers(workers, timeout=600)
        print(f"{workers} workers at {client.scheduler.address}", flush=True)
        results = client.gather(client.map(hits, range(PARTS)))
    names = [name for name, _ in results]
    for name in sorted(set(names)):
        print(f"{name} computed {names.count(name)} of {PARTS} parts", flush=True)
    pi = 4 * sum(count for _, count in results) / (PARTS * POINTS)
    assert len(set(names)) == workers, names
    assert abs(pi - 3.14159) < 0.01, pi
    print(f"pi is about {pi:.4f}", flush=True)


if __name__ == "__main__":
    main()
