"""Cuts a JSON object or array into its direct members without decoding them, whatever they contain.

Watches and lists use it where the JSON library refuses a page or a line because of one object in it: a depth beyond the
interpreter's limit, a number out of range, text that is not UTF-8. Only brackets and strings are looked at, so the time
is linear in the size and the depth does not matter.
"""

import re
from collections.abc import Callable, Iterator
from typing import TypeVar

import msgspec

P = TypeVar("P")

_SPACE = re.compile(rb"[ \t\r\n]*+")
_QUOTED = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_STRING = re.compile(_QUOTED, re.DOTALL)
_SCALAR = re.compile(rb'[^\[\]{},:" \t\r\n]++')
_PLAIN = rb'[^"\[\]{}]*+'
# An object or array that holds no other, as most of `managedFields` are: it is passed in one step.
_FLAT = rb"[\[{]%b(?:%b%b)*+[\]}]" % (_PLAIN, _QUOTED, _PLAIN)
_TO_BRACKET = re.compile(rb"%b(?:(?:%b|%b)%b)*+[\[\]{}]" % (_PLAIN, _QUOTED, _FLAT, _PLAIN), re.DOTALL)
_OPENING = frozenset(b"[{")


def members(document: bytes) -> dict[str, bytes]:
    """Return the members of an object, each value as it came; of a name that is given twice the last one.

    Raises:
        ValueError: the document is not an object, or not complete.
    """
    return dict(_parts(document, b"{", b"}", _member))


def member(document: bytes, wanted: str) -> bytes:
    """Return the first member of this name, as it came; what follows it is not looked at.

    Raises:
        ValueError: the document is not an object, or not complete.
        KeyError: there is no such member.
    """
    for name, value in _parts(document, b"{", b"}", _member):
        if name == wanted:
            return value
    raise KeyError(wanted)


def elements(document: bytes) -> list[bytes]:
    """Return the elements of an array, each as it came; null is an empty array.

    Raises:
        ValueError: the document is not an array, or not complete.
    """
    return [] if document.strip() == b"null" else list(_parts(document, b"[", b"]", _value))


def page(document: bytes) -> tuple[list[bytes], bytes]:
    """Return the items of a list as the API server sends it, and its metadata, each as it came.

    Raises:
        ValueError, KeyError: the document is not a list, or not complete.
    """
    parts = members(document)
    return elements(parts["items"]), parts["metadata"]


def _parts(document: bytes, opening: bytes, closing: bytes, part: Callable[[bytes, int], tuple[P, int]]) -> Iterator[P]:
    """Yield the parts between two brackets and commas; `part` cuts the one that begins at a position."""
    at = _after(document, 0, opening)
    if document[at : at + 1] == closing:
        return
    while True:
        found, at = part(document, at)
        yield found
        if document[at : at + 1] == closing:
            return
        at = _after(document, at, b",")


def _member(document: bytes, at: int) -> tuple[tuple[str, bytes], int]:
    name, at = _value(document, at)
    value, at = _value(document, _after(document, at, b":"))
    return (msgspec.json.decode(name, type=str), value), at


def _after(document: bytes, at: int, expected: bytes) -> int:
    """Return the position of what follows the expected character and blanks."""
    at = _skip_space(document, at)
    if document[at : at + 1] != expected:
        raise ValueError(f"expected {expected.decode()!r} at byte {at}, found {document[at : at + 1]!r}")
    return _skip_space(document, at + 1)


def _value(document: bytes, at: int) -> tuple[bytes, int]:
    """Return the value that begins here, and the position of what follows it and blanks."""
    end = _end_of_value(document, at)
    return document[at:end], _skip_space(document, end)


def _end_of_value(document: bytes, at: int) -> int:
    if document[at : at + 1] not in {b"[", b"{"}:
        scalar = _STRING.match(document, at) or _SCALAR.match(document, at)
        if scalar is None:
            raise ValueError(f"expected a value at byte {at}, found {document[at : at + 1]!r}")
        return scalar.end()
    end, depth = at + 1, 1
    while True:
        bracket = _TO_BRACKET.match(document, end)
        if bracket is None:
            raise ValueError(f"the value at byte {at} has no end")
        end = bracket.end()
        depth += 1 if document[end - 1] in _OPENING else -1
        if depth == 0:
            return end


def _skip_space(document: bytes, at: int) -> int:
    space = _SPACE.match(document, at)
    assert space is not None
    return space.end()
