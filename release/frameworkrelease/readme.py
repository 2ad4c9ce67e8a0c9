"""The README of the chart: its table of values is made from the comments of `values.yaml`.

A key with a comment above it is one row of the table. A key without a comment is a group, whose keys have comments.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import yaml

from frameworkrelease.chart import CHART

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FILE: Final = CHART / "README.md"
VALUES: Final = CHART / "values.yaml"
_TABLE: Final = re.compile(r"(?<=<!-- values: made by `make manifests` -->\n).*?(?=<!-- end of values -->)", re.DOTALL)


class UndocumentedError(Exception):
    """A value has no comment; the text names it."""


@dataclass(frozen=True)
class Value:
    """One documented value.

    Attributes:
        path: Its keys, joined by dots.
        default: Its default.
        text: The comment above it, as one paragraph.
    """

    path: str
    default: Any
    text: str


def readme(written: str, values: str) -> str:
    """Return the README with its table renewed.

    Args:
        written: The text of the README, with its markers.
        values: The text of `values.yaml`.

    Raises:
        UndocumentedError: A value has no comment.
    """
    rows = [f"| `{v.path}` | `{json.dumps(v.default)}` | {v.text} |" for v in documented(values)]
    table = "\n".join(["| value | default | meaning |", "| --- | --- | --- |", *(_escaped(row) for row in rows)])
    return _TABLE.sub(lambda _: f"\n{table}\n\n", written)


def documented(text: str) -> Iterator[Value]:
    """Yield the values of a file with their comments, in its order.

    Raises:
        UndocumentedError: A value has no comment.
    """
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    assert isinstance(root, yaml.MappingNode), "values.yaml is a mapping"
    yield from _of(root, "", yaml.safe_load(text), text.splitlines())


def _of(group: yaml.MappingNode, prefix: str, values: Any, lines: Sequence[str]) -> Iterator[Value]:
    for key, node in group.value:
        path, value = f"{prefix}{key.value}", values[key.value]
        comment = _comment_above(key.start_mark.line, lines)
        if comment:
            yield Value(path, value, comment)
        elif isinstance(node, yaml.MappingNode) and node.value:
            yield from _of(node, f"{path}.", value, lines)
        else:
            raise UndocumentedError(f"values.yaml: {path} has no comment above it: say there what it does")


def _comment_above(line: int, lines: Sequence[str]) -> str:
    start = line
    while start and lines[start - 1].lstrip().startswith("#"):
        start -= 1
    return " ".join(text.strip().removeprefix("#").strip() for text in lines[start:line])


def _escaped(row: str) -> str:
    """Return a row whose cells may contain the bars of a type such as `a|b`."""
    cells = row.removeprefix("| ").removesuffix(" |").split(" | ", 2)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
