"""Wording that tables, trees and sentences share: durations, counts, and text of others made safe for a terminal."""

import re
from collections.abc import Sequence
from datetime import datetime
from itertools import islice
from typing import Final

from frameworkclient.errors import ArgumentError

_CSI: Final = r"[0-9;?]*+[ -/]*+[@-~]"
# Each part ends at the next escape character at the latest: the time is linear also where sequences never end.
SEQUENCE: Final = rf"\[{_CSI}|\][^\x07\x1b]*+(?:\x07|\x1b\\)"
"""What follows an escape character in a control sequence, as a regular expression."""
_SEQUENCES: Final = re.compile(rf"\x1b(?:{SEQUENCE})|\x9b{_CSI}")
_PIECE_CHARACTERS: Final = 2048


def sanitize(text: str) -> str:
    """Return text of others as one line without control sequences and invisible characters."""
    left = _SEQUENCES.sub("", text)
    # A piece at a time: as objects, characters take many times the memory of their text.
    pieces = (left[start : start + _PIECE_CHARACTERS] for start in range(0, len(left), _PIECE_CHARACTERS))
    spaced = (piece.replace("\t", "    ").replace("\r", " ").replace("\n", " ") for piece in pieces)
    # Characters that change the direction of writing, and lone surrogates, are not printable either.
    return "".join(piece if piece.isprintable() else "".join(filter(str.isprintable, piece)) for piece in spaced)


def shorten(text: str, limit: int) -> str:
    """Return text of others as one line of at most `limit` characters."""
    words = re.finditer("[^ ]+", sanitize(text))
    line = " ".join(word[0] for word in islice(words, limit + 1))
    return line if len(line) <= limit else line[: limit - 1] + "…"


_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_UNITS: Final = (
    (2 * 60, "s", ""),
    (10 * 60, "m", "s"),
    (3 * 3600, "m", ""),
    (8 * 3600, "h", "m"),
    (2 * 86_400, "h", ""),
    (8 * 86_400, "d", "h"),
)
"""The units of a duration that has fewer seconds than the first number."""


def duration(seconds: float) -> str:
    """Return a duration as kubectl writes an age: `41s`, `5m12s`, `12d`; less than 0, as clocks differ, is `0s`."""
    whole = max(0, int(seconds))
    large, small = next(((large, small) for below, large, small in _UNITS if whole < below), ("d", ""))
    rest = whole % _SECONDS[large] // _SECONDS[small] if small else 0
    return f"{whole // _SECONDS[large]}{large}" + (f"{rest}{small}" if rest else "")


def span(seconds: float) -> str:
    """Return a duration; a short one with tenths, for many gangs start in less than a second."""
    return duration(min(seconds, 1e11)) if seconds >= 10 or seconds <= 0 else f"{seconds:.1f}s"


MOST_DAYS: Final = 36_500
"""Of a duration that is given: a time so long ago still has a date."""
_DURATION: Final = re.compile(r"(?:[0-9]{1,9}[smhd])+|[0-9]{1,9}")


def seconds_of(text: str, what: str) -> int:
    """Return the seconds of a duration such as `90`, `45s`, `10m` or `1h30m`; `what` is the flag, for the message.

    Raises:
        ArgumentError: It is not a duration.
    """
    if not _DURATION.fullmatch(text):
        raise ArgumentError(f"{what} {text}: must be a duration, like 45s, 10m or 1h30m")
    found = sum(int(number) * _SECONDS[unit or "s"] for number, unit in re.findall(r"([0-9]+)([smhd]?)", text))
    if found > MOST_DAYS * _SECONDS["d"]:
        raise ArgumentError(f"{what} {text}: must be at most {MOST_DAYS}d")
    return found


def since(then: datetime | None, now: datetime) -> str:
    """Return how long ago a time was, `-` for none."""
    return "-" if then is None else duration((now - then).total_seconds())


def listed(names: Sequence[str], limit: int = 3) -> str:
    """Return the first names and the count of the others: `worker-0, worker-1 and 3 more`."""
    shown = ", ".join(names[:limit])
    return f"{shown} and {len(names) - limit} more" if len(names) > limit else shown


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: `1 Task`, `2 Tasks`."""
    return f"{number} {noun}" + ("" if number == 1 else "s")
