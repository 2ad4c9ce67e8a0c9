"""One trial of a sweep: minimise a function by gradient descent, with the parameters that belong to a Task index."""

import itertools
import sys
from pathlib import Path

STEPS = 2000
GRID = list(itertools.product((0.0002, 0.0005, 0.001, 0.004), (0.0, 0.9)))
"""The points of the grid: learning rate and momentum."""
HOPELESS = 1e6


def main(index: int) -> None:
    """Report the loss as the termination message, which the status keeps; exit with 1 if the descent diverges."""
    rate, momentum = GRID[index]
    x, y, speed_x, speed_y = -1.5, 2.0, 0.0, 0.0
    for _ in range(STEPS):
        # The gradient of Rosenbrock's function, a narrow valley with its minimum at (1, 1).
        slope_x, slope_y = -2 * (1 - x) - 400 * x * (y - x * x), 200 * (y - x * x)
        speed_x, speed_y = momentum * speed_x - rate * slope_x, momentum * speed_y - rate * slope_y
        x, y = x + speed_x, y + speed_y
        if abs(x) > HOPELESS:
            report(f"rate={rate} momentum={momentum} diverged")
            sys.exit(1)
    report(f"rate={rate} momentum={momentum} loss={(1 - x) ** 2 + 100 * (y - x * x) ** 2:.6f}")


def report(text: str) -> None:
    """Write a line to the log and to the status of the Framework."""
    print(text, flush=True)
    Path("/dev/termination-log").write_text(text)


if __name__ == "__main__":
    main(int(sys.argv[1]))
