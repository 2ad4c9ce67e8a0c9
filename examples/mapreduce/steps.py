"""Maps and reduces run by themselves; the log shows that all words were counted."""

from frameworkdemo.examples.example import Example


def steps(example: Example) -> None:
    """Wait for the result and for the end."""
    example.apply()
    example.logged("words-reduce-0", "all 16 words are counted")
    example.ends("Succeeded")
