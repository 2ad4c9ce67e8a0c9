"""The parts run by themselves; the logs show that each loader found rows of all of them."""

from frameworkdemo.examples.example import Example


def steps(example: Example) -> None:
    """Wait for the result of each part, and for the end."""
    example.apply()
    for part in range(3):
        example.logged(f"etl-part-{part}", "rows of 3 parts")
    example.ends("Succeeded")
