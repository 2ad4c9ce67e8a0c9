"""Logs: constant messages with keys, on stderr, as text for people or JSON for machines.

A gang of thousands of Tasks logs tens of thousands of state changes, so a line has to be cheap: the renderers are a
join or one call of the JSON encoder.
"""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec
import structlog

if TYPE_CHECKING:
    from structlog.typing import EventDict, WrappedLogger

_encoder = msgspec.json.Encoder(enc_hook=str)


def write_line(line: bytes) -> None:
    """Write a line of history to stderr at once: the object that it shows may be about to end."""
    sys.stderr.buffer.write(line)
    sys.stderr.buffer.flush()


def configure_logging(*, json: bool, debug: bool = False) -> None:
    """Set up structlog for the process."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.format_exc_info,
            render_json if json else render_text,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG if debug else logging.INFO),
        logger_factory=structlog.BytesLoggerFactory(sys.stderr.buffer),
        cache_logger_on_first_use=True,
    )


def render_json(_logger: WrappedLogger, _name: str, event: EventDict) -> bytes:
    """Render one JSON object: `ts`, `level`, `msg` and the keys."""
    return _encoder.encode({"ts": _now(), "level": event.pop("level"), "msg": event.pop("event"), **event})


def render_text(_logger: WrappedLogger, _name: str, event: EventDict) -> bytes:
    """Render `TIME level message key=value ...`, with a traceback below."""
    traceback = event.pop("exception", "")
    head = f"{_now()} {event.pop('level'):<7} {event.pop('event')}"
    keys = " ".join(f"{key}={_quoted(value)}" for key, value in event.items())
    return "\n".join(filter(None, (f"{head}  {keys}".rstrip(), traceback))).encode(errors="backslashreplace")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _quoted(value: object) -> str:
    text = str(value)
    return text if text and text.isprintable() and not any(mark in text for mark in ' "=') else repr(text)
