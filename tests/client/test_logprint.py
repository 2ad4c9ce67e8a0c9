"""Lines of logs on a terminal, in a pipe and in files."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from frameworkclient.cli.commands.log_output import LogPrinter, LogSaver, file_name
from frameworkclient.cli.terminal import Colours
from frameworkclient.logs.lines import LogBatch, LogLine, LogSource

WORKER = LogSource("worker-0", (0, 0), "p", "u", "main", 0, "worker-0")
AGAIN = LogSource("worker-0", (1, 2), "p", "v", "main", 0, "worker-0")
SIDE = LogSource("worker-0", (0, 0), "p", "u", "side", 0, "worker-0/side")
STAMP = "2026-01-01T12:00:00.000000001Z"


def printed(*texts: str, colours: bool = False, on_terminal: bool = False, timestamps: bool = False) -> str:
    stream = io.StringIO()
    printer = LogPrinter(stream, Colours(enabled=colours), on_terminal=on_terminal, timestamps=timestamps)
    printer.write(LogBatch([LogLine(WORKER, STAMP, text) for text in texts]))
    return stream.getvalue()


def test_each_line_begins_with_its_task() -> None:
    assert printed("a", "b") == "[worker-0] a\n[worker-0] b\n"
    assert printed("a", timestamps=True) == f"[worker-0] {STAMP} a\n"
    assert printed("a", colours=True) == "\x1b[36m[worker-0]\x1b[0m a\n"


SHOWN = {
    "plain": ("plain", "plain"),
    "colours": ("\x1b[32mgreen\x1b[0m", "\x1b[32mgreen\x1b[0m"),
    "unfinished colour": ("\x1b[8mhidden", "\x1b[8mhidden\x1b[0m"),
    "cursor": ("\x1b[2J\x1b[Hcleared", "cleared"),
    "unfinished sequence": ("an end\x1b", "an end"),
    "title": ("\x1b]0;title\x07text", "text"),
    "progress": ("10%\r50%\r100%", "100%"),
    "carriage return": ("dos\r", "dos"),
    "bell": ("bell\x07 and tab\t", "bell and tab\t"),
}


@pytest.mark.parametrize(("text", "shown"), SHOWN.values(), ids=SHOWN)
def test_a_terminal_gets_colours_and_nothing_that_moves_the_cursor(text: str, shown: str) -> None:
    assert printed(text, colours=True, on_terminal=True).removeprefix("\x1b[36m[worker-0]\x1b[0m ") == shown + "\n"


def test_a_terminal_without_colours_gets_none_of_the_programs() -> None:
    assert printed("\x1b[32mgreen\x1b[0m", on_terminal=True) == "[worker-0] green\n"


def test_a_pipe_gets_what_was_written() -> None:
    assert printed("\x1b[2J10%\r20%") == "[worker-0] \x1b[2J10%\r20%\n"


def test_each_attempt_has_a_file(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / file_name(WORKER)).write_text("of an earlier command\n")
    saver = LogSaver(tmp_path / "logs", timestamps=False)
    for source in (WORKER, AGAIN, SIDE, WORKER):
        saver.write(LogBatch([LogLine(source, STAMP, source.uid)]))
    assert {file.name: file.read_text() for file in saver.files} == {
        "worker-0.attempt-0-0.log": "u\nu\n",
        "worker-0.attempt-1-2.log": "v\n",
        "worker-0.side.attempt-0-0.log": "u\n",
    }
    assert saver.lines == 4


def is_in(folder: Path, link: Path) -> bool:
    try:
        return link.readlink().is_relative_to(folder)
    except FileNotFoundError:
        return False


def test_no_file_stays_open(tmp_path: Path) -> None:
    saver = LogSaver(tmp_path, timestamps=False)
    sources = [LogSource(f"worker-{n}", (0, 0), "p", "u", "main", 0, f"worker-{n}") for n in range(500)]
    for text in ("first", "second"):
        for source in sources:
            saver.write(LogBatch([LogLine(source, STAMP, text)]))
    assert not any(is_in(tmp_path, link) for link in Path("/proc/self/fd").iterdir())
    assert {file.read_text() for file in saver.files} == {"first\nsecond\n"}
