"""The log of this package, and the JSON lines of the programs.

structlog, and rich with it, is imported when the first line is written. A command that writes no line need not wait for
that; it takes longer than most requests.
"""

from collections.abc import Callable, MutableMapping
from datetime import UTC, datetime
from typing import Any

import msgspec

_encode = msgspec.json.Encoder(enc_hook=str).encode
_pending: list[Callable[[], None]] = []


def before_first_line(configure: Callable[[], None] | None) -> None:
    """Have structlog set up right before the first line, not at the start of the program; None takes that back."""
    _pending[:] = [] if configure is None else [configure]


class Logger:
    """A logger of structlog for a module, made for each line."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, level: str) -> Any:
        """Return the method that writes a line of this level."""
        while _pending:
            _pending.pop()()
        import structlog

        return getattr(structlog.get_logger(self._name), level)


def timestamp() -> str:
    """Return the time in UTC, to the millisecond, as lines of logs have it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def render_json(_logger: object, _name: str, event: MutableMapping[str, Any]) -> bytes:
    """Render a line as one JSON object: `ts`, `level`, `msg` and the keys; the last processor of structlog.

    A program writes thousands of lines in a burst, so this is a single call of the JSON encoder.
    """
    return _encode({"ts": timestamp(), "level": event.pop("level"), "msg": event.pop("event"), **event})
