"""Both workers must have the same model."""

from frameworkdemo.examples.example import Example


def steps(example: Example) -> None:
    """Compare the models, and wait for the end."""
    example.apply()
    models = {example.logged(f"lightgbm-worker-{index}", "; model ").rsplit(" ", 1)[1] for index in range(2)}
    assert len(models) == 1, models
    example.ends("Succeeded")
