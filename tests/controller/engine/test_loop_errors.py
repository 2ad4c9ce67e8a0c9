"""Errors of the event loop are lines of the log, whatever their format."""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING

from structlog.testing import capture_logs

from frameworkcontroller.engine.run import log_loop_error

if TYPE_CHECKING:
    import pytest


def leave_behind(error: Exception) -> None:
    """Let a future end with an error that nobody retrieves."""

    async def leave() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(log_loop_error)
        loop.create_future().set_exception(error)
        gc.collect()

    asyncio.run(leave())


def test_a_connection_that_nothing_waited_for_is_one_line_without_a_traceback(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with capture_logs() as logs:
        leave_behind(ConnectionResetError("gone"))
    said = "a connection ended that nothing waited for"
    assert logs == [{"event": said, "error": "ConnectionResetError('gone')", "log_level": "info"}]
    assert capfd.readouterr().err == ""


def test_a_transport_that_fails_is_one_line_whatever_it_raises() -> None:
    with capture_logs() as logs:
        loop = asyncio.new_event_loop()
        log_loop_error(loop, {"message": "Fatal error", "exception": RuntimeError("closed"), "transport": object()})
        loop.close()
    assert [(entry["log_level"], entry["error"]) for entry in logs] == [("info", "RuntimeError('closed')")]


def test_any_other_error_of_the_loop_is_logged_with_its_traceback(capfd: pytest.CaptureFixture[str]) -> None:
    defect = ValueError("a defect")
    with capture_logs() as logs:
        leave_behind(defect)
    assert [(entry["event"], entry["exc_info"]) for entry in logs] == [("error in the event loop", defect)]
    assert capfd.readouterr().err == ""
