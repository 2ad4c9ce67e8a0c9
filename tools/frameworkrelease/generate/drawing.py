"""What the pictures of the manual are drawn with: lines, boxes and texts in the colours of two themes, as SVG.

A page may have another colour scheme than the system of its reader, so each picture has a background of its own.
"""

from collections.abc import Sequence
from typing import Final
from xml.sax.saxutils import escape

HUES: Final = {
    "accent": "#2457c5", "quiet": "#5a6570", "bad": "#b3400a", "card": "#8a94a0", "lost": "#9c3d28",
    "queued": "#a8adb3", "waiting": "#d0d4d8", "scheduling": "#e5d21d", "starting": "#e69f00", "gate": "#56b4e9",
    "running": "#009e73", "hung": "#d55e00", "restarting": "#cc79a7", "ending": "#8a8f94", "backoff": "#4f93c9",
}  # fmt: skip
"""Of lines and areas, by what they mean; those of the ledger are about those of the archive's page."""
THEMES: Final = {
    "light": ("#ffffff", "#1d2329", "#47515b", "#d9dde1"),
    "dark": ("#161b21", "#e9edf0", "#c5ced6", "#3a434c"),
}
"""Background, text, small text and frame."""
_STYLE: Final = """\
text{font:14px system-ui,-apple-system,'Segoe UI',Roboto,Arial,'DejaVu Sans',sans-serif}.b,.t{font-weight:600}
.t{font-size:18px}.s{font-size:13px}.m{font-family:ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace}
.halo{paint-order:stroke;stroke-width:6px;stroke-linejoin:round}.dash{stroke-dasharray:5 4}
.l{fill:none;stroke-width:1.8;stroke-linecap:round;stroke-linejoin:round}.gap{stroke-width:6}.thick{stroke-width:2.6}"""


def mixed(hue: str, other: str, share: float) -> str:
    """Return a hue as a colour, of which a share, 0 to 1, is left beside another colour."""
    pairs = ((int(one[at : at + 2], 16) for one in (HUES[hue], other)) for at in (1, 3, 5))
    return "#" + "".join(f"{round(one * share + two * (1 - share)):02x}" for one, two in pairs)


def colours(theme: str, body: str) -> str:
    """Return the rules of a theme for the hues that a picture has."""
    page, ink, quiet, frame = THEMES[theme]
    rules = f".page{{fill:{page};stroke:{frame}}}.life{{stroke:{frame}}}text{{fill:{ink}}}.q{{fill:{quiet}}}"
    rules += f".halo,.gap{{stroke:{page}}}"
    for hue in HUES:
        line, area = mixed(hue, ink, 1 if theme == "light" else 0.55), mixed(hue, page, 0.12 if hue == "card" else 0.3)
        rules += f".f-{hue}{{fill:{area};stroke:{line}}}" * (f"f-{hue}" in body)
        rules += f".l-{hue}{{stroke:{line}}}" * (f"l-{hue}" in body)
    return rules


def sign(value: float) -> int:
    """Return -1, 0 or 1."""
    return (value > 0) - (value < 0)


class Drawing:
    """A picture: shapes and texts, each over those before it, in pixels; a `kind` is some classes of the style."""

    def __init__(self, title: str, width: int, height: int) -> None:
        self._title, self._parts = title, list[str]()
        self._size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        self.box(0.5, 0.5, width - 1, height - 1, "page")
        self.text(24, 36, title, "t")

    def text(self, x: float, y: float, text: str, kind: str = "s", at: str = "start", turn: int = 0) -> None:
        """Write a line; `at` says what is at the place: its start, middle or end. It may be turned, by degrees."""
        place = f'transform="translate({x:g} {y:g}) rotate({turn})"' if turn else f'x="{x:g}" y="{y:g}"'
        anchor = "" if at == "start" else f' text-anchor="{at}"'
        self._parts.append(f'<text {place}{anchor} class="{kind}">{escape(text)}</text>')

    def box(self, x: float, y: float, width: float, height: float, kind: str, lines: Sequence[str] = ()) -> None:
        """Draw a rectangle with lines of text in its middle."""
        size = f'width="{width:g}" height="{height:g}" rx="6"'
        self._parts.append(f'<rect x="{x:g}" y="{y:g}" {size} class="{kind}"/>')
        for row, line in enumerate(lines):
            self.text(x + width / 2, y + height / 2 + 4.5 + 17 * (row - (len(lines) - 1) / 2), line, at="middle")

    def line(self, points: Sequence[tuple[float, float]], kind: str, *, name: str = "", head: bool = True) -> None:
        """Draw a line with round corners; with a head it is an arrow."""

        def towards(corner: tuple[float, float], other: tuple[float, float]) -> str:
            return " ".join(f"{one + sign(two - one) * 8:g}" for one, two in zip(corner, other, strict=True))

        corners = [
            f"L{towards(corner, before)}Q{corner[0]:g} {corner[1]:g} {towards(corner, after)}"
            for before, corner, after in zip(points, points[1:-1], points[2:], strict=False)
        ]
        (x, y), (before_x, before_y) = points[-1], points[-2]
        path = f"M{points[0][0]:g} {points[0][1]:g}{''.join(corners)}L{x:g} {y:g}"
        if head:
            dx, dy = 7 * sign(before_x - x), 7 * sign(before_y - y)
            one, other = ((x + dx + side * dy, y + dy + side * dx) for side in (0.6, -0.6))
            path += f"M{one[0]:g} {one[1]:g}L{x:g} {y:g}L{other[0]:g} {other[1]:g}"
        called = f' id="{name}"' if name else ""
        self._parts.append(f'<path d="{path}" class="l {kind}"{called}/>')

    def svg(self) -> str:
        """Return the file."""
        body = "\n".join(self._parts)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" {self._size} role="img" aria-labelledby="title">\n'
            f'<title id="title">{escape(self._title)}</title>\n<style>\n{_STYLE}\n'
            f"{colours('light', body)}\n@media(prefers-color-scheme:dark){{{colours('dark', body)}}}\n</style>\n"
            f"{body}\n</svg>\n"
        )
