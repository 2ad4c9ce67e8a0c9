"""Maps run, then reduces; the log shows that together they counted all words."""

from frameworkdemo.examples.example import Example


def steps(example: Example) -> None:
    """Add up what the reduces say, and wait for the end."""
    example.apply()
    lines = [example.logged(f"words-reduce-{index}", " of 16 words") for index in range(2)]
    assert sum(int(line.split(" has ")[1].split()[0]) for line in lines) == 16, lines
    example.ends("Succeeded")
