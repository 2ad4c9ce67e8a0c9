"""Quantities of resources, as Kubernetes writes them: `100m`, `0.5`, `64Mi`, `1e3`.

Source: https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
"""

import re
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

from frameworkbarrier import values

CPU: Final = "cpu"
_BINARY: Final = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_FACTORS: Final = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    **{suffix: Fraction(1000**power) for power, suffix in enumerate("kMGTPE", 1)},
    **{suffix: Fraction(1024**power) for power, suffix in enumerate(_BINARY, 1)},
}
_PATTERN: Final = re.compile(r"([0-9]{1,30})(?:\.([0-9]{0,9}))?(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?[0-9]{1,2}))?")
_EXPECTED: Final = "a quantity as 100m, 2 or 64Mi"


@dataclass(frozen=True, slots=True, order=True)
class Quantity:
    """An amount of a resource, ordered by its value in cores or bytes; `text` is how it was written."""

    value: Fraction
    text: str = field(compare=False)


def read(text: str) -> Quantity:
    """Read a quantity that is not negative.

    Raises:
        BadValueError: The text is not one.
    """
    found = _PATTERN.fullmatch(text) if len(text) <= 64 else None
    if found is None:
        raise values.BadValueError(_EXPECTED)
    whole, decimals, suffix, exponent = found.groups(default="")
    factor = Fraction(10) ** int(exponent) if exponent else _FACTORS[suffix]
    return Quantity(Fraction(int(whole + decimals), 10 ** len(decimals)) * factor, text)


def written(resource: str, value: Fraction) -> Quantity:
    """Round an amount up to thousandths of a core, or to KiB, and write it as the API server does."""
    if resource == CPU:
        thousandths = -(-value * 1000 // 1)
        text = f"{thousandths}m" if thousandths % 1000 else str(thousandths // 1000)
        return Quantity(Fraction(thousandths, 1000), text)
    kibibytes = amount = -(-value // 1024)
    power = 0
    while amount and amount % 1024 == 0 and power < len(_BINARY) - 1:
        amount, power = amount // 1024, power + 1
    return Quantity(Fraction(kibibytes * 1024), f"{amount}{_BINARY[power]}")
