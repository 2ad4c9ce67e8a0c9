"""Reads fields of JSON documents that others wrote: a function returns what it is asked for or names the field. Pure.

What comes from an API server passes here before anything relies on its type, so that a wrong document is a sentence and
never a traceback. An absent field and null count as empty: the API server leaves empty fields out. `where` is the path
of the field; whatever else the value is, a `ShapeError` names it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from frameworkbarrier.text import one_line

_NOTHING: Mapping[str, Any] = {}


class ShapeError(ValueError):
    """The document is not of the form of its kind; the text names the field."""


def table(value: object, where: str) -> Mapping[str, Any]:
    """Return an object."""
    if isinstance(value, dict):
        return value
    if value is None:
        return _NOTHING
    raise _wrong(value, where, "an object")


def rows(value: object, where: str) -> Sequence[Mapping[str, Any]]:
    """Return a list of objects."""
    if value is None:
        return ()
    if not isinstance(value, list):
        raise _wrong(value, where, "a list")
    for each in value:
        if not isinstance(each, dict):
            raise _wrong(each, where, "a list of objects")
    return value


def word(value: object, where: str) -> str:
    """Return a text."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    raise _wrong(value, where, "a string")


def count(value: object, where: str, most: int) -> int:
    """Return a whole number from 0 to `most`."""
    if value is None:
        return 0
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most:
        return value
    raise _wrong(value, where, f"a whole number from 0 to {most}")


def _wrong(value: object, where: str, expected: str) -> ShapeError:
    return ShapeError(f"{where}: {one_line(repr(value), 80)} is not {expected}")
