"""How values become HTML: text of others is one line without control characters, and then escaped, wherever it is."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from markupsafe import Markup, escape

from frameworkclient.views.ledger import SIGNS, share_text
from frameworkclient.views.text import duration, sanitize, shorten, span
from frameworkhistory.archive.tables import SPENT
from frameworkhistory.page.tables import KINDS, TABLES, TITLES

_TEXT: Final = 120  # characters of a text in a table
_BADGES: Final = {"Succeeded": "good", "Failed": "bad", "Warning": "bad", "AttemptRunning": "live"}


def _shown(value: object) -> object:
    """Return what a template writes for a value, before it is escaped."""
    return "" if value is None else sanitize(value) if isinstance(value, str) and type(value) is not Markup else value


def stamp(seconds: float) -> str:
    """Return a time in UTC: `2026-01-31 12:00:00`; "" if it cannot be one."""
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}"
    except (ValueError, OverflowError, OSError):
        return ""


def badge(value: str) -> Markup:
    """Return a state or a result, as a sign."""
    return Markup('<span class="badge {}">{}</span>').format(_BADGES.get(value, "plain"), sanitize(value))


@pass_context
def ago(context: Context, seconds: float) -> Markup:
    """Return a time with how long ago it was."""
    told, left = stamp(seconds), seconds - context["now"]
    text = f"in {duration(left)}" if left > 1 else f"{duration(-left)} ago"
    return Markup('<time datetime="{}Z" title="{} UTC">{}</time>').format(told.replace(" ", "T"), told, text)


_CELLS: Final[Mapping[str, Callable[[Any], object]]] = {
    "seconds": span,
    "share": share_text,
    "ordinal": lambda number: number + 1,
    "result": badge,
}


@pass_context
def cell(context: Context, column: str, row: Mapping[str, Any]) -> Markup:
    """Return what is in the cell of a table; the row may have where it leads to, as `{column}_href`."""
    value, kind = row.get(column), KINDS.get(column, "")
    if value is None or value == "":
        return Markup("")
    if kind == "time":
        shown: object = ago(context, value)
    elif kind in _CELLS:
        shown = _CELLS[kind](value)
    else:
        shown = shorten(value, _TEXT) if isinstance(value, str) else value
    href = row.get(f"{column}_href")
    return Markup('<a href="{}">{}</a>').format(href, shown) if href else escape(shown)


ENVIRONMENT: Final = Environment(
    loader=PackageLoader("frameworkhistory.page"),
    autoescape=True,
    undefined=StrictUndefined,
    finalize=_shown,
    trim_blocks=True,
    lstrip_blocks=True,
)
ENVIRONMENT.filters.update(ago=ago, span=span, share=share_text, stamp=stamp, badge=badge)
ENVIRONMENT.globals.update(cell=cell, SIGNS=SIGNS, SPENT=SPENT, KINDS=KINDS, TABLES=TABLES, TITLES=TITLES)
