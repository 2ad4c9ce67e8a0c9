"""The log of this package: structlog, and rich with it, is imported when the first line is written.

A command that writes no line need not wait for that; it takes longer than most requests.
"""

from collections.abc import Callable
from typing import Any

_pending: list[Callable[[], None]] = []


def before_first_line(configure: Callable[[], None] | None) -> None:
    """Have structlog set up right before the first line, not at the start of the program; None takes that back."""
    _pending[:] = [] if configure is None else [configure]


class Logger:
    """A logger of structlog, made for each line.

    Args:
        name: of the module that writes.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, level: str) -> Any:
        """Return the method that writes a line of this level."""
        while _pending:
            _pending.pop()()
        import structlog

        return getattr(structlog.get_logger(self._name), level)
