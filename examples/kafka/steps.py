"""A server is killed while messages are written and read; it comes back, and none of them is lost."""

from frameworkdemo.examples.example import Example


def steps(example: Example) -> None:
    """Kill a server after the first messages, and wait until it has caught up and all are read."""
    example.apply()
    example.logged("log-producer-0", "1000 messages written")
    example.kill("log-broker-1")
    example.logged("log-producer-0", "12 replicas in sync")
    example.logged("log-producer-0", "8000 messages written")
    example.ends("Succeeded")
