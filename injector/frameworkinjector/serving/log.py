"""Logs as JSON lines on stderr: constant messages with keys, in the controller's scheme (`ts`, `level`, `msg`)."""

import logging
import sys

import structlog

from frameworkkube.log import render_json


def configure(level: str) -> None:
    """Set up structlog for the process; `level` is a level of the module `logging` (`info`)."""
    structlog.configure(
        processors=[structlog.processors.add_log_level, render_json],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.BytesLoggerFactory(sys.stderr.buffer),
        cache_logger_on_first_use=True,
    )


def place_of(error: BaseException | None) -> str:
    """Return the function and line that raised an exception, whose text may quote a Pod and is not logged."""
    trace = error.__traceback__ if error is not None else None
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else f"{trace.tb_frame.f_code.co_name}:{trace.tb_lineno}"
