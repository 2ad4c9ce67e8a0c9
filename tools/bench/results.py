"""The figures of the benchmarks: kept in a file, and printed as the page shows them."""

import argparse
import statistics
from collections.abc import Collection, Mapping

from frameworkrelease.generate.performance import MEASURED, Row, of_page, origin, row, write


def flags(description: str | None) -> argparse.ArgumentParser:
    """Return a parser of the flags of a benchmark."""
    return argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)


class Results:
    """The measurements of one run of a benchmark, which are kept in `build/bench/<name>.csv` after each.

    `make scale` takes them over into docs/performance.csv and docs/performance.md, which says what they mean.
    """

    def __init__(self, name: str) -> None:
        self._file = MEASURED / f"{name}.csv"
        self._rows: list[Row] = []

    def add(self, shape: str, by: str, figures: Mapping[str, object], kubernetes: str) -> None:
        """Keep a measurement: what was done, by what, columns, and the version of Kubernetes."""
        self._rows.append(row(shape, by, {**figures, **origin(kubernetes)}))
        write(self._rows, self._file)

    def show(self) -> None:
        """Print the tables of the page that have a row among these."""
        print(*of_page(self._rows), sep="\n")


def quantile(values: Collection[float], share: float) -> float:
    """Return a quantile of values, between those that were measured; that of one value is this value."""
    if len(values) == 1:
        return next(iter(values))
    return statistics.quantiles(values, n=100, method="inclusive")[round(100 * share) - 1]
