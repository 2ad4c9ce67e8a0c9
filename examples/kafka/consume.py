"""Read a share of the partitions, and fail unless each number comes once and in its order."""

import os
import time
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from plan import PARTITIONS, PATIENCE, SERVERS, TOPIC, numbers_of


def main() -> None:
    """Read the partitions of this Task: consumers and partitions are dealt out in turn."""
    consumers = len(Path("/mnt/frameworkbarrier/consumer.hosts").read_text().splitlines())
    mine = range(int(os.environ["FC_TASK_INDEX"]), PARTITIONS, consumers)
    expected = {partition: iter(numbers_of(partition)) for partition in mine}
    left = sum(len(numbers_of(partition)) for partition in mine)
    consumer = Consumer({**SERVERS, "group.id": "none", "enable.auto.commit": False, "check.crcs": True})
    consumer.assign([TopicPartition(TOPIC, partition, OFFSET_BEGINNING) for partition in mine])
    total, deadline = left, time.monotonic() + PATIENCE
    while left:
        message = consumer.poll(1)
        assert time.monotonic() < deadline, f"{left} messages are missing"
        if message is None:
            continue
        if message.error():
            print(f"trying again: {message.error()}", flush=True)
            continue
        number = next(expected[message.partition()])
        assert int(message.value()) == number, (message.partition(), message.offset(), message.value(), number)
        left -= 1
    consumer.close()
    print(f"{total} messages of partitions {', '.join(map(str, mine))} are right", flush=True)


if __name__ == "__main__":
    main()
