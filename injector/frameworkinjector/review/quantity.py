"""Quantities of resources, as Kubernetes writes them: `100m`, `0.5`, `64Mi`, `1e3`.

Source: https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
"""

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from frameworkbarrier import values

CPU: Final = "cpu"
ONE: Final = 10**9
"""A core, or a byte, in billionths: Kubernetes rounds what is finer up to them."""
_BINARY: Final = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_FACTORS: Final = {
    **{suffix: 1000**power for power, suffix in enumerate(("n", "u", "m", "", "k", "M", "G", "T", "P", "E"))},
    **{suffix: ONE * 1024**power for power, suffix in enumerate(_BINARY, 1)},
}
_PATTERN: Final = re.compile(r"([0-9]{1,30})(?:\.([0-9]{0,9}))?(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?[0-9]{1,2}))?")
_EXPECTED: Final = "a quantity as 100m, 2 or 64Mi"


@dataclass(frozen=True, slots=True, order=True)
class Quantity:
    """An amount of a resource, ordered by its billionths of cores or bytes; `text` is how it was written."""

    billionths: int
    text: str = field(compare=False)


@lru_cache(maxsize=1024)  # most Pods ask for the same few; what is refused is not kept
def read(text: str) -> Quantity:
    """Read a quantity that is not negative.

    Raises:
        BadValueError: The text is not one.
    """
    found = _PATTERN.fullmatch(text) if len(text) <= 64 else None
    if found is None:
        raise values.BadValueError(_EXPECTED)
    whole, decimals, suffix, exponent = found.groups(default="")
    power = (int(exponent) if exponent else 0) - len(decimals)
    number = int(whole + decimals) * _FACTORS[suffix]
    return Quantity(number * 10**power if power >= 0 else -(-number // 10**-power), text)


def written(resource: str, billionths: int) -> Quantity:
    """Round an amount up to thousandths of a core, or to KiB, and write it as the API server does."""
    if resource == CPU:
        thousandths = -(-billionths // _FACTORS["m"])
        text = f"{thousandths}m" if thousandths % 1000 else str(thousandths // 1000)
        return Quantity(thousandths * _FACTORS["m"], text)
    kibibytes = amount = -(-billionths // _FACTORS["Ki"])
    power = 0
    while amount and amount % 1024 == 0 and power < len(_BINARY) - 1:
        amount, power = amount // 1024, power + 1
    return Quantity(kibibytes * _FACTORS["Ki"], f"{amount}{_BINARY[power]}")
