"""Count primes on the executors of a Spark cluster, and fail unless all workers take part and the count is right."""

import collections
import os
import socket
from pathlib import Path

from pyspark import SparkConf, SparkContext

WORKERS = Path("/mnt/frameworkbarrier/worker.hosts")
LIMIT, PARTS, KNOWN = 200_000, 16, 17_984


def is_prime(number: int) -> bool:
    """Divide by all numbers up to the root."""
    return number > 1 and all(number % divisor for divisor in range(2, int(number**0.5) + 1))


def main() -> None:
    """Wait for all executors, whose number the barrier says, and count. The master's address is in MASTER."""
    workers = WORKERS.read_text().split()
    settings = {
        "spark.cores.max": str(len(workers)),
        # A job that begins when the first executor is there may be over before the second one is.
        "spark.scheduler.minRegisteredResourcesRatio": "1",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "600s",
        "spark.log.level": "WARN",
    }
    conf = SparkConf().setAppName("primes").setAll(list(settings.items()))
    with SparkContext(conf=conf) as context:
        print(f"{len(workers)} workers at {context.master}, Spark {context.version}", flush=True)
        numbers = context.parallelize(range(LIMIT), PARTS)
        parts = numbers.mapPartitions(lambda part: [(socket.gethostname(), sum(map(is_prime, part)))]).collect()
    hosts = collections.Counter(host for host, _ in parts)
    for host, count in sorted(hosts.items()):
        print(f"{host} counted {count} of {PARTS} parts", flush=True)
    found = sum(count for _, count in parts)
    assert set(hosts) == {f"{os.environ['FC_FRAMEWORK_NAME']}-worker-{index}" for index in range(len(workers))}, hosts
    assert found == KNOWN, found
    print(f"{found} primes below {LIMIT}", flush=True)


if __name__ == "__main__":
    main()
