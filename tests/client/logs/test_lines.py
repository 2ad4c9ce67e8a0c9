"""From the bytes of logs to lines, each once and in the order of time; how they are shown; which `--grep` chooses."""

import asyncio
import io
import itertools
import re
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frameworkclient import ArgumentError, Client, ForbiddenError
from frameworkclient.cli.commands.log_output import LogPrinter, LogSaver, file_name
from frameworkclient.cli.terminal import Colours
from frameworkclient.logs.collector import merged
from frameworkclient.logs.lines import MAX_LINE_BYTES, LineCutter, LogBatch, LogLine, LogSource, Position
from frameworkclient.logs.selection import LogSelection
from tests.client.test_start import COMMAND, run
from tests.support.kubeconfig import kubeconfig


def source(task: str = "worker-0", attempt: tuple[int, int] = (0, 0), uid: str = "uid", label: str = "") -> LogSource:
    return LogSource(task, attempt, f"training-{task}", uid, "main", 0, label or task)


SOURCE = source()


def stamp(number: int) -> str:
    return f"2026-01-01T12:00:{number:012.9f}Z"


def line(number: int, text: str = "", source: LogSource = SOURCE) -> LogLine:
    return LogLine(source, stamp(number), text or str(number))


def cut(*chunks: bytes) -> list[LogLine]:
    """The lines of an answer that comes in these chunks."""
    cutter = LineCutter(SOURCE)
    return [one for chunk in chunks for one in cutter.feed(chunk)] + cutter.rest()


def test_a_line_has_its_time_and_its_text() -> None:
    (found,) = LineCutter(SOURCE).feed(f"{stamp(7)} hello  world \n".encode())
    assert (found.text, found.time) == ("hello  world ", datetime(2026, 1, 1, 12, 0, 7, tzinfo=UTC))
    assert str(found) == "[worker-0] hello  world "


@given(
    texts=st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n")), max_size=8),
    cuts=st.lists(st.integers(0, 400), max_size=8),
)
def test_lines_are_the_same_however_they_are_cut_into_chunks(texts: list[str], cuts: list[int]) -> None:
    content = "".join(f"{stamp(number)} {text}\n" for number, text in enumerate(texts)).encode()
    places = sorted({0, *(place for place in cuts if place < len(content)), len(content)})
    found = cut(*(content[start:end] for start, end in itertools.pairwise(places)))
    assert [one.text for one in found] == texts


def test_what_the_kubelet_adds_about_a_container_that_is_gone_is_no_line_of_the_log() -> None:
    error = b"rpc error: code = NotFound desc = an error occurred when try to find container"
    assert [one.text for one in cut(f"{stamp(1)} last\n".encode() + error)] == ["last"]
    assert LineCutter(SOURCE).feed(error + b"\n") == []


def test_a_line_without_an_end_comes_in_pieces_and_text_that_is_not_utf8_is_shown() -> None:
    cutter = LineCutter(SOURCE)
    head = f"{stamp(1)} ".encode()
    pieces = cutter.feed(head + b"x" * MAX_LINE_BYTES) + cutter.feed(b"yy\n")
    assert "".join(piece.text for piece in pieces) == "x" * MAX_LINE_BYTES + "yy"
    assert {piece.stamp for piece in pieces} == {stamp(1)}
    assert cutter.feed(head + b"a\xff") == []
    assert [one.text for one in cutter.rest()] == ["a\N{REPLACEMENT CHARACTER}"]


@given(
    numbers=st.lists(st.integers(0, 5), min_size=1, max_size=30).map(sorted),
    read=st.lists(st.tuples(st.integers(0, 30), st.integers(1, 6)), max_size=6),
)
def test_a_log_over_broken_connections_has_each_line_once(numbers: list[int], read: list[tuple[int, int]]) -> None:
    """Each connection begins at the last time that was read, or up to a second before, and breaks after some lines."""
    whole = [line(number, f"{place}") for place, number in enumerate(numbers)]
    position, found = Position(), []
    for length, size in [*read, (len(whole), 7)]:
        since = position.stamp
        answer = [one for one in whole if one.stamp >= since][: length or None] if since else whole[:length]
        position.resume()
        for start in range(0, len(answer), size):
            found += position.fresh(answer[start : start + size])
    position.resume()
    found += position.fresh([one for one in whole if one.stamp >= position.stamp])
    assert [one.text for one in found] == [one.text for one in whole]


def _merge(*logs: list[LogBatch]) -> list[LogBatch]:
    async def arriving(batches: list[LogBatch]) -> AsyncGenerator[LogBatch, None]:
        for batch in batches:
            yield batch

    async def collect() -> list[LogBatch]:
        return [batch async for batch in merged([arriving(log) for log in logs])]

    return asyncio.run(collect())


@given(st.lists(st.lists(st.lists(st.integers(0, 50), min_size=1, max_size=5), max_size=5), min_size=1, max_size=4))
def test_merged_logs_are_in_the_order_of_time(logs: list[list[list[int]]]) -> None:
    batches = []
    for number, log in enumerate(logs):
        ordered = iter(sorted(one for batch in log for one in batch))
        of = source(f"worker-{number}")
        batches.append([LogBatch([line(next(ordered), source=of) for _ in batch]) for batch in log])
    found = [one for batch in _merge(*batches) for one in batch.lines]
    assert [one.stamp for one in found] == sorted(one.stamp for log in batches for each in log for one in each.lines)


def test_a_note_stands_before_the_lines_that_follow_it() -> None:
    note = LogBatch(note="attempt 2", source=SOURCE)
    found = _merge([LogBatch([line(1)]), note, LogBatch([line(3)])], [LogBatch([line(2)])])
    assert [batch.note or "".join(one.text for one in batch.lines) for batch in found] == ["1", "attempt 2", "23"]


async def test_a_log_that_may_not_be_read_is_the_error_while_another_one_waits_for_its_first_line() -> None:
    async def silent() -> AsyncGenerator[LogBatch, None]:
        await asyncio.Event().wait()
        yield LogBatch()

    async def refused() -> AsyncGenerator[LogBatch, None]:
        await asyncio.sleep(0)
        raise ForbiddenError("no permission", 403)
        yield LogBatch()

    async with aclosing(silent()) as first, aclosing(refused()) as second:
        with pytest.raises(ForbiddenError):
            await anext(merged([first, second]))


def printed(text: str, *, colours: bool = False, on_terminal: bool = False, timestamps: bool = False) -> str:
    stream = io.StringIO()
    printer = LogPrinter(stream, Colours(enabled=colours), on_terminal=on_terminal, timestamps=timestamps)
    printer.write(LogBatch([line(1, text)]))
    return stream.getvalue()


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
    assert printed(text, colours=True, on_terminal=True) == f"\x1b[36m[worker-0]\x1b[0m {shown}\n"


def test_a_terminal_without_colours_gets_none_of_the_programs_and_a_pipe_gets_what_was_written() -> None:
    assert printed("\x1b[32mgreen\x1b[0m", on_terminal=True) == "[worker-0] green\n"
    assert printed("\x1b[2J10%\r20%", timestamps=True) == f"[worker-0] {stamp(1)} \x1b[2J10%\r20%\n"


def test_each_attempt_has_a_file_and_no_file_stays_open(tmp_path: Path) -> None:
    (tmp_path / file_name(SOURCE)).write_text("of an earlier command\n")
    saver = LogSaver(tmp_path, timestamps=False)
    for one in (SOURCE, source(attempt=(1, 2), uid="v"), source(label="worker-0/side"), SOURCE):
        saver.write(LogBatch([line(1, one.uid, one)]))
    assert not any(link.resolve().is_relative_to(tmp_path.resolve()) for link in Path("/proc/self/fd").iterdir())
    assert {file.name: file.read_text() for file in saver.files} == {
        "worker-0.attempt-0-0.log": "uid\nuid\n",
        "worker-0.attempt-1-2.log": "v\n",
        "worker-0.side.attempt-0-0.log": "uid\n",
    }
    assert saver.lines == 4


LONG = 8192
SEARCHED = {
    "an end of the line": ("x$", "", "a" * 2047 + "x", True),
    "an end of a part of the line": ("x$", "", "a" * 2047 + "x" + "b" * 5000, False),
    "words that are far from each other": ("foo.*bar", "", "foo" + "." * 2100 + "bar", True),
    "a word at both ends": ("^foo.*bar$", "", "foo" + "." * MAX_LINE_BYTES + "bar", True),
    "groups and alternatives": (r"(loss|acc)=(\d+)", "", "step 7: acc=93", True),
    "capitals": ("(?i)ERROR", "", "an error", True),
    "a letter beyond ASCII": ("^.é$", "", "éé", True),
    "a text": ("", "a.b", "xa.by", True),
    "a text that is no expression": ("", "a.b", "axb", False),
    "a text of brackets": ("", "[rank0](", "[rank0](1)", True),
    "a text beyond ASCII": ("", "\ufffd", "a\ufffd", True),
    "an expression and a text that are found": ("loss", "rank 3", "rank 3: loss", True),
    "an expression that is found and a text that is not": ("loss", "rank 3", "rank 2: loss", False),
    "a text that is found and an expression that is not": ("loss", "rank 3", "rank 3: acc", False),
    "nothing": ("", "", "anything", True),
}


def is_found(text: str, grep: str = "", grep_text: str = "") -> bool:
    return bool(LogSelection(grep=grep, grep_text=grep_text).matching([line(1, text)]))


@pytest.mark.parametrize(("grep", "grep_text", "text", "expected"), SEARCHED.values(), ids=SEARCHED)
def test_a_whole_line_is_searched(grep: str, grep_text: str, text: str, expected: bool) -> None:
    assert is_found(text, grep, grep_text) is expected


@given(st.integers(0, LONG))
def test_what_is_looked_for_is_found_anywhere_in_a_long_line(place: int) -> None:
    text = "x" * place + "error: timeout" + "x" * (LONG - place)
    assert is_found(text, "error.*timeout", ": t")
    assert not is_found(text, "other")
    assert not is_found(text, "", "other")


SYNTAX = "not a regular expression in RE2 syntax: "
UNUSABLE = {
    "an open bracket": ("(", f"grep (: {SYNTAX}missing ): ("),
    "a look behind": ("(?<=a)b", f"grep (?<=a)b: {SYNTAX}"),
    "a reference back": (r"(a)\1", rf"grep (a)\1: {SYNTAX}"),
    "bytes that are no text": ("\udcff", SYNTAX),
}


@pytest.mark.parametrize(("grep", "message"), UNUSABLE.values(), ids=UNUSABLE)
def test_an_expression_that_cannot_be_used_is_refused_before_a_cluster_is_asked(
    grep: str, message: str, tmp_path: Path
) -> None:
    """`test_offline_commands` has what the command says of one."""
    client = Client(kubeconfig=kubeconfig(tmp_path / "config"))
    with client, pytest.raises(ArgumentError, match=re.escape(message)):
        client.logs("training", grep=grep)


def test_without_its_package_an_expression_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = kubeconfig(tmp_path / "config")

    def told(flag: str) -> str:
        program = f"import sys\nsys.modules['re2'] = None\n{COMMAND}"
        return run(program, "logs", "training", "--kubeconfig", config, flag).stderr

    message = "grep: needs the package google-re2: pip install 'frameworkcontroller[client]', or use grep_text"
    assert f"frameworkctl: --{message}" in told("--grep=error")
    # A text needs no package: the command comes as far as the cluster.
    assert "get Framework" in told("--grep-text=error")
    monkeypatch.setitem(sys.modules, "re2", None)
    with Client(kubeconfig=config) as client:
        client.logs("training", grep_text="error")
        with pytest.raises(ArgumentError, match=re.escape(message)):
            client.logs("training", grep="an expression of this test")
