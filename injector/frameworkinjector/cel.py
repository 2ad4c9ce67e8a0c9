"""Writes values as CEL, the expression language of Kubernetes' admission policies.

The modules of the policy build an expression from literals, which come from the same code as the webhook's, and from
expressions that are written by hand. Source: https://kubernetes.io/docs/reference/using-api/cel/
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

_INDENT: Final = "  "


class Cel(str):
    """An expression; any other value that is written becomes a literal."""

    __slots__ = ()


def written(value: Any, depth: int = 0) -> Cel:
    """Write a value of JSON whose parts may be expressions.

    Kubernetes refuses a map or a list of values of different types; `dyn` makes them one type.
    """
    if isinstance(value, Cel):
        return value
    if isinstance(value, bool):
        return Cel("true" if value else "false")
    if isinstance(value, str):
        return Cel(json.dumps(value, ensure_ascii=False))
    if isinstance(value, Mapping):
        return _map(value, depth, plain=_is_plain(value))
    if isinstance(value, Sequence):
        plain = all(_is_plain(each) for each in value if isinstance(each, Mapping))
        items = [
            _map(each, depth + 1, plain=plain) if isinstance(each, Mapping) else written(each, depth + 1)
            for each in value
        ]
        return _block("[", items, "]", depth)
    return Cel(json.dumps(value))


def _is_plain(value: Mapping[str, Any]) -> bool:
    return all(isinstance(each, str) and not isinstance(each, Cel) for each in value.values())


def _map(value: Mapping[str, Any], depth: int, *, plain: bool) -> Cel:
    entries = [(written(key), written(each, depth + 1)) for key, each in value.items()]
    return _block("{", [f"{key}: {each}" if plain else f"{key}: dyn({each})" for key, each in entries], "}", depth)


def _block(opening: str, entries: Sequence[str], closing: str, depth: int) -> Cel:
    line = f"{opening}{', '.join(entries)}{closing}"
    if "\n" not in line and len(line) + len(_INDENT) * depth <= 100:
        return Cel(line)
    inner, outer = "\n" + _INDENT * (depth + 1), "\n" + _INDENT * depth
    return Cel(opening + inner + f",{inner}".join(entries) + outer + closing)


def sentence(template: str, **parts: Any) -> Cel:
    """Write a sentence whose fields in braces are expressions, or text that is known already."""
    known = {name: part for name, part in parts.items() if not isinstance(part, Cel)}
    marks = {name: f"\0{name}\0" for name in parts if name not in known}
    pieces = template.format_map(known | marks).split("\0")
    # Text and names take turns.
    terms = [str(parts[piece]) if odd % 2 else str(written(piece)) for odd, piece in enumerate(pieces) if piece]
    return Cel(" + ".join(terms))


def shown(text: Cel, limit: int = 80) -> Cel:
    """Quote a user's text for a sentence: on one line, at most `limit` characters, as `reasons.shown` does."""
    cut = f'{text}.size() > {limit} ? {text}.substring(0, {limit - 1}) + "…" : {text}'
    return Cel(f'"\'" + ({cut}).replace("\\n", " ").replace("\\r", " ") + "\'"')
