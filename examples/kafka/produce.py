"""Write each number once, and the last ones only when all replicas are in sync."""

import time

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from plan import MESSAGES, PARTITIONS, PATIENCE, REPLICAS, SERVERS, TOPIC

BATCH, PAUSE = 100, 0.25


def create() -> None:
    """Create the topic as soon as there are enough servers."""
    admin, deadline = AdminClient(SERVERS), time.monotonic() + PATIENCE
    while True:
        try:
            admin.create_topics([NewTopic(TOPIC, PARTITIONS, REPLICAS)])[TOPIC].result()
        except KafkaException as error:
            if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:  # the answer to the first request was lost
                return
            if time.monotonic() > deadline:
                raise
            print(f"waiting: {error.args[0].name()}", flush=True)
            time.sleep(1)
        else:
            return


def replicas_in_sync(producer: Producer) -> int:
    """Return how many replicas of the topic have all that was written."""
    partitions = producer.list_topics(TOPIC, timeout=PATIENCE).topics[TOPIC].partitions
    return sum(len(each.isrs) for each in partitions.values())


def write(producer: Producer, numbers: range) -> None:
    """Write numbers, and return when all of them are acknowledged."""
    for number in numbers:
        producer.produce(TOPIC, str(number).encode(), partition=number % PARTITIONS)
    assert producer.flush(PATIENCE) == 0


def main() -> None:
    """Write at an even pace, wait for the replicas, and write the rest."""
    create()
    # Idempotent: a message that is sent again, because its acknowledgement was lost, is not written again.
    producer = Producer({**SERVERS, "enable.idempotence": True, "delivery.timeout.ms": PATIENCE * 1000})
    last = MESSAGES - PARTITIONS
    for start in range(0, last, BATCH):
        end = min(start + BATCH, last)
        write(producer, range(start, end))
        if end % 1000 == 0:
            print(f"{end} messages written", flush=True)
        time.sleep(PAUSE)
    deadline = time.monotonic() + PATIENCE
    while (found := replicas_in_sync(producer)) < PARTITIONS * REPLICAS:
        assert time.monotonic() < deadline, found
        time.sleep(1)
    print(f"{found} replicas in sync", flush=True)
    write(producer, range(last, MESSAGES))
    print(f"{MESSAGES} messages written", flush=True)


if __name__ == "__main__":
    main()
