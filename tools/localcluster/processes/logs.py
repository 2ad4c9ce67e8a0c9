"""Logs of components: their complete lines, and the few that tell a person why a component did not start."""

import re
from pathlib import Path

# klog's errors and fatals (E1121, F1121), the levels of logrus, zap and CoreDNS, Go's panics, errors of commands.
_ERROR = re.compile(
    r"""^[EF]\d{4}\s | level=(?:error|fatal|panic) | "level":"(?:error|fatal|panic)" | \[(?:ERROR|FATAL)\]
        | ^panic: | ^fatal | ^Error: | address\ already\ in\ use | permission\ denied""",
    re.VERBOSE | re.IGNORECASE,
)
_MOST_BYTES = 512 * 1024
_MOST_CHARACTERS = 500
"""A longer line is cut."""


def complete_lines(log: Path) -> list[str]:
    """Return the lines of a log, without a last one that lacks its line break, because a process may still write it."""
    return log.read_bytes().rpartition(b"\n")[0].decode().splitlines()


def relevant_tail(log: Path, offset: int = 0, lines: int = 20) -> str:
    """Return the lines of a log that a person needs to see: the last errors and the last lines, in the file's order.

    Args:
        log: The file; if it does not exist, there are no lines.
        offset: The number of bytes at its beginning that an earlier process wrote; they are left out.
        lines: The maximal number of lines; at most half of them are errors from further up.
    """
    try:
        with log.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(offset, size - _MOST_BYTES))
            written = file.read().decode(errors="replace").splitlines()
    except FileNotFoundError:
        return ""
    errors = [number for number, line in enumerate(written) if _ERROR.search(line)][-(lines // 2) :]
    last = range(max(0, len(written) - (lines - len(errors))), len(written))
    shown: list[str] = []
    previous = -1
    for number in sorted({*errors, *last}):
        if number != previous + 1:
            shown.append("  ...")
        shown.append("  " + written[number][:_MOST_CHARACTERS])
        previous = number
    return "\n".join(shown)
