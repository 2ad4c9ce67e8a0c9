"""Logs of components for people: the few lines that say why something did not start."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

# klog's errors and fatals (E1121, F1121), the levels of logrus, zap and CoreDNS, Go's panics, what commands print.
_TROUBLE = re.compile(
    r"""^[EF]\d{4}\s | level=(?:error|fatal|panic) | "level":"(?:error|fatal|panic)" | \[(?:ERROR|FATAL)\]
        | ^panic: | ^fatal | ^Error: | address\ already\ in\ use | permission\ denied""",
    re.VERBOSE | re.IGNORECASE,
)
_MOST_BYTES = 512 * 1024


def relevant_tail(log: Path, offset: int = 0, lines: int = 20, width: int = 500) -> str:
    """The lines of a log that a person needs to see: the last errors, then the very last lines.

    Args:
        log: The file; one that is absent has no lines.
        offset: Bytes to leave out at its beginning, written by an earlier process.
        lines: How many lines at most, half of them for errors.
        width: Characters after which a line is cut.

    Returns:
        The lines in the order of the file, each once; lines left out between them are marked by an ellipsis.
    """
    try:
        with log.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(offset, size - _MOST_BYTES))
            written = file.read().decode(errors="replace").splitlines()
    except FileNotFoundError:
        return ""
    trouble = [number for number, line in enumerate(written) if _TROUBLE.search(line)][-(lines // 2) :]
    last = range(max(0, len(written) - (lines - len(trouble))), len(written))
    shown: list[str] = []
    previous = -1
    for number in sorted({*trouble, *last}):
        if number != previous + 1:
            shown.append("  ...")
        shown.append("  " + written[number][:width])
        previous = number
    return "\n".join(shown)
