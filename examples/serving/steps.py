"""The model is saved, served and asked for; the client's success ends the servers."""

from frameworkdemo.examples.example import Example


def steps(example: Example) -> None:
    """Follow the model to the client, and wait for the end."""
    example.apply()
    example.logged("serving-trainer-0", "saved y = ")
    example.logged("serving-client-0", "2 replicas agree")
    example.ends("Succeeded")
