"""What a terminal showed, and when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

LONGEST: Final = 2.5
"""Seconds for which nothing may change: who watches has seen it by then."""


@dataclass(frozen=True)
class Span:
    """Some characters of one look, beside each other.

    Attributes:
        column: Where they begin, from 0.
        text: The characters.
        colour: Such as `#98a84b`; "" for that of all text.
        bold: Whether they are bold.
        dim: Whether they are faint.
    """

    column: int
    text: str
    colour: str = ""
    bold: bool = False
    dim: bool = False


Row = tuple[Span, ...]


@dataclass(frozen=True)
class Frame:
    """The screen from one moment on.

    Attributes:
        at: Seconds since the beginning.
        rows: The lines from the top; an empty one has no spans.
    """

    at: float
    rows: tuple[Row, ...]


def tidied(frames: Iterable[Frame], longest: float = LONGEST) -> list[Frame]:
    """Return the frames that differ from the one before, from time 0 on, without long pauses.

    Args:
        frames: As they were captured, the oldest first.
        longest: Seconds that a frame may stay.
    """
    kept: list[Frame] = []
    last, removed = 0.0, 0.0
    for frame in frames:
        if not kept:
            removed = frame.at
        elif frame.rows == kept[-1].rows:
            continue
        else:
            removed += max(0.0, frame.at - last - longest)
        last = frame.at
        kept.append(Frame(frame.at - removed, frame.rows))
    return kept
