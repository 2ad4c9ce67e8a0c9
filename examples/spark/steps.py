"""The driver's success ends the cluster."""

from frameworkdemo.examples.example import Example


def steps(example: Example) -> None:
    """Wait for the result and for the end."""
    example.apply()
    example.logged("spark-driver-0", "17984 primes below 200000")
    example.ends("Succeeded")
