"""Reads a screen that tmux has captured: characters and their looks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.ansi import AnsiDecoder
from rich.cells import cell_len
from rich.console import Console
from rich.terminal_theme import SVG_EXPORT_THEME

from frameworkrelease.recording.frames import Span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.text import Text

    from frameworkrelease.recording.frames import Row

CURSOR: Final = "█"
_WIDE: Final = Console(width=1000, color_system="truecolor", force_terminal=True, no_color=False, _environ={})


def rows_of(screen: str, cursor: tuple[int, int] | None = None) -> tuple[Row, ...]:
    """Return the lines of a screen.

    Backgrounds, underlining and the like are left out.

    Args:
        screen: The text with its escape sequences.
        cursor: Column and line of the cursor, from 0; None while it is hidden.
    """
    rows = [tuple(_spans(line)) for line in AnsiDecoder().decode(screen.removesuffix("\n"))]
    if cursor is not None and cursor[1] < len(rows):
        rows[cursor[1]] += (Span(cursor[0], CURSOR, dim=True),)
    return tuple(rows)


def _spans(line: Text) -> Iterator[Span]:
    line.rstrip()
    column = 0
    for text, style, _ in line.render(_WIDE):
        blank = len(text) - len(text.lstrip(" "))
        if shown := text.strip(" "):
            colour = style.color.get_truecolor(SVG_EXPORT_THEME).hex if style and style.color else ""
            looks = (bool(style and style.bold), bool(style and style.dim))
            yield Span(column + blank, shown, colour, *looks)
        column += cell_len(text)
