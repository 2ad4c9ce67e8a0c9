"""Reads the metrics of the API server and of the controller, which have many thousands of lines, by name."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_LABEL = re.compile(r'(\w+)="([^"]*)"')

Labels = dict[str, str]


def samples(text: str, name: str) -> Iterator[tuple[Labels, float]]:
    """Yield labels and value of each sample of this name; the values of labels have no quotes in them."""
    for found in re.finditer(rf"^{re.escape(name)}(?:\{{(.*)\}})? (\S+)", text, re.MULTILINE):
        yield dict(_LABEL.findall(found[1] or "")), float(found[2])


def total(text: str, name: str) -> float:
    """Return the sum over all samples of this name."""
    return sum(value for _, value in samples(text, name))


def quantile_bound(buckets: Iterable[tuple[Labels, float]], quantile: float) -> float | None:
    """Return the upper bound of the bucket of a histogram in which a quantile lies; None of an empty histogram."""
    bounds = sorted((math.inf if labels["le"] == "+Inf" else float(labels["le"]), count) for labels, count in buckets)
    if not bounds or not bounds[-1][1]:
        return None
    return next(bound for bound, count in bounds if count >= quantile * bounds[-1][1])
