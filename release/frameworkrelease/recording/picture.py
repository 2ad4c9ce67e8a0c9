"""Draws frames as an animated SVG.

It must run where a page shows it as an image: without scripts, without fonts of its own, and with colours that suit a
light and a dark page. Each line that a row shows is drawn once and is visible while it is there; a rule of CSS per set
of times says when. Who asks for no motion, or has a program without animations, sees the last frame.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Final
from xml.sax.saxutils import escape

from rich.cells import cell_len
from rich.terminal_theme import SVG_EXPORT_THEME

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frameworkrelease.recording.frames import Frame, Row, Span

Times = tuple[tuple[float, float], ...]
"""When something is visible: from and until, as shares of the whole."""

_NAMESPACE: Final = "http://www.w3.org/2000/svg"
_FONT: Final = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace"
_CELL, _LINE, _SIZE = 8.4, 19, 14
_MARGIN, _BAR = 18, 34
_BACKGROUND: Final = "#1d2430"
_TEXT: Final = SVG_EXPORT_THEME.foreground_color.hex
_NOT_IN_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def svg(frames: Sequence[Frame], end: float, columns: int, lines: int, title: str) -> str:
    """Return the picture.

    Args:
        frames: What is shown; the first one is at 0.
        end: Seconds after which it begins again.
        columns: Width of the terminal, in characters.
        lines: Its height.
        title: What is to be seen, for those who do not see it.
    """
    drawn = [(number, row, times) for (number, row), times in _visible(frames, end).items()]
    last = {(number, row) for number, row in enumerate(frames[-1].rows)}
    names: dict[tuple[Times, bool], str] = {}
    body = []
    for number, row, times in drawn:
        texts = "".join(_text(span, number) for span in row)
        if times == ((0.0, 1.0),):
            body.append(texts)
            continue
        name = names.setdefault((times, (number, row) in last), f"k{len(names)}")
        body.append(f"<g class='{name}'>{texts}</g>")
    width, height = round(columns * _CELL + 2 * _MARGIN), lines * _LINE + _BAR + _MARGIN
    rules = [_rule(name, times, stays=stays) for (times, stays), name in names.items()]
    size = f"width='{width}' height='{height}'"
    return "\n".join(
        (
            f"<svg xmlns='{_NAMESPACE}' viewBox='0 0 {width} {height}' {size} role='img' xml:space='preserve'>",
            f"<title>{_escaped(title)}</title>",
            "<style>",
            f"text{{font:{_SIZE}px {_FONT};fill:{_TEXT};white-space:pre}}",
            ".b{font-weight:bold}.d{opacity:.6}",
            f"[class^=k]{{animation:{end:.2f}s step-end infinite}}",
            *rules,
            "@media (prefers-reduced-motion:reduce){[class^=k]{animation:none}}",
            "</style>",
            f"<rect {size} rx='9' fill='{_BACKGROUND}'/>",
            *(
                f"<circle cx='{_MARGIN + 5 + 20 * place}' cy='{_BAR // 2}' r='6' fill='{colour}'/>"
                for place, colour in enumerate(("#ff5f57", "#febc2e", "#28c840"))
            ),
            *body,
            "</svg>\n",
        )
    )


def _visible(frames: Sequence[Frame], end: float) -> dict[tuple[int, Row], Times]:
    """Return each line that a row shows, with the times at which it does."""
    found: dict[tuple[int, Row], Times] = {}
    moments = [round(at / end, 5) for at in (*(frame.at for frame in frames), end)]
    for frame, (start, stop) in zip(frames, pairwise(moments), strict=True):
        for key in enumerate(frame.rows):
            if not key[1]:
                continue
            before = found.get(key, ())
            if before and before[-1][1] == start:
                found[key] = (*before[:-1], (before[-1][0], stop))
            else:
                found[key] = (*before, (start, stop))
    return found


def _rule(name: str, times: Times, *, stays: bool) -> str:
    stops = {0.0: "hidden"}
    for start, stop in times:
        stops |= {start: "visible", stop: "hidden"}
    stops.pop(1.0, None)
    steps = "".join(f"{round(100 * at, 3):g}%{{visibility:{how}}}" for at, how in stops.items())
    return f".{name}{{animation-name:{name}{'' if stays else ';visibility:hidden'}}}@keyframes {name}{{{steps}}}"


def _text(span: Span, number: int) -> str:
    x, y = _MARGIN + span.column * _CELL, _BAR + number * _LINE + _SIZE
    looks = " ".join(name for name, is_set in (("b", span.bold), ("d", span.dim)) if is_set)
    attributes = f" class='{looks}'" if looks else ""
    if span.colour:
        attributes += f" style='fill:{span.colour}'"
    # Fonts differ in width, and a table must stay one.
    length = f" textLength='{cell_len(span.text) * _CELL:.5g}' lengthAdjust='spacingAndGlyphs'"
    return f"<text x='{x:.5g}' y='{y}'{attributes}{length}>{_escaped(span.text)}</text>"


def _escaped(text: str) -> str:
    return escape(_NOT_IN_XML.sub("\N{REPLACEMENT CHARACTER}", text))
