"""The client's success ends the cluster."""

from frameworkdemo.examples.example import Example


def steps(example: Example) -> None:
    """Wait for the result and for the end."""
    example.apply()
    example.logged("dask-client-0", "pi is about 3.1", seconds=600)
    example.ends("Succeeded")
