"""What the producer writes and the consumers expect: the numbers from 0 on, dealt out to the partitions in turn."""

import os

TOPIC, PARTITIONS, REPLICAS, MESSAGES = "numbers", 4, 3, 8_000
PATIENCE = 600
"""Seconds."""
# A client says in each second of a server's absence that it does not answer.
SERVERS = {"bootstrap.servers": os.environ["KAFKA_BOOTSTRAP_SERVERS"], "log_level": 2}


def numbers_of(partition: int) -> range:
    """Return the numbers of a partition, in their order."""
    return range(partition, MESSAGES, PARTITIONS)
