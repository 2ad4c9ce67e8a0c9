"""Tables of pages that are made: each stands between two marks, the first of which names it and the command."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

_MADE: Final = re.compile(r"(<!-- ([\w ]+): made by `make \w+` -->\n).*?(<!-- end -->)", re.DOTALL)


def renewed(written: str, tables: Mapping[str, Iterable[str]]) -> str:
    """Return a page with each of its tables made of the lines that its name has."""
    return _MADE.sub(lambda found: "\n".join([found[1], *tables[found[2]], "", found[3]]), written)


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """Yield the lines of a table."""
    for cells in (head, ["---"] * len(head), *rows):
        yield f"| {' | '.join(map(str, cells))} |"
