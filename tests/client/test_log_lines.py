"""From the bytes of logs to lines, each exactly once and in the order of time."""

from __future__ import annotations

import asyncio
import itertools
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from frameworkclient.logs.lines import MAX_LINE_BYTES, LineCutter, LogBatch, LogLine, LogSource, Position
from frameworkclient.logs.merge import merged

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

SOURCE = LogSource("worker-0", (0, 0), "training-worker-0", "uid", "main", 0, "worker-0")


def stamp(number: int) -> str:
    return f"2026-01-01T12:00:{number:012.9f}Z"


def line(number: int, text: str = "", source: LogSource = SOURCE) -> LogLine:
    return LogLine(source, stamp(number), text or str(number))


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
    places = sorted({0, *(cut for cut in cuts if cut < len(content)), len(content)})
    cutter, found = LineCutter(SOURCE), []
    for start, end in itertools.pairwise(places):
        found += cutter.feed(content[start:end])
    found += cutter.rest()
    assert [one.text for one in found] == texts


def test_what_the_kubelet_adds_about_a_container_that_is_gone_is_no_line_of_the_log() -> None:
    error = b"rpc error: code = NotFound desc = an error occurred when try to find container"
    cutter = LineCutter(SOURCE)
    found = cutter.feed(f"{stamp(1)} last\n".encode() + error) + cutter.rest()
    assert [one.text for one in found] == ["last"]
    assert LineCutter(SOURCE).feed(error + b"\n") == []


def test_a_line_without_an_end_comes_in_pieces() -> None:
    cutter = LineCutter(SOURCE)
    head = f"{stamp(1)} ".encode()
    pieces = cutter.feed(head + b"x" * MAX_LINE_BYTES)
    pieces += cutter.feed(b"yy\n")
    assert "".join(piece.text for piece in pieces) == "x" * MAX_LINE_BYTES + "yy"
    assert {piece.stamp for piece in pieces} == {stamp(1)}


def test_the_last_line_needs_no_newline_and_text_that_is_not_utf8_is_shown() -> None:
    cutter = LineCutter(SOURCE)
    assert cutter.feed(f"{stamp(1)} a".encode() + b"\xff") == []
    assert [one.text for one in cutter.rest()] == ["a\N{REPLACEMENT CHARACTER}"]


@given(
    numbers=st.lists(st.integers(0, 5), min_size=1, max_size=30).map(sorted),
    read=st.lists(st.tuples(st.integers(0, 30), st.integers(1, 6)), max_size=6),
)
def test_a_log_that_is_read_over_broken_connections_has_each_line_once(
    numbers: list[int], read: list[tuple[int, int]]
) -> None:
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


async def _log(batches: list[LogBatch]) -> AsyncGenerator[LogBatch, None]:
    for batch in batches:
        yield batch


def _merge(*logs: list[LogBatch]) -> list[LogBatch]:
    async def collect() -> list[LogBatch]:
        return [batch async for batch in merged([_log(log) for log in logs])]

    return asyncio.run(collect())


@given(st.lists(st.lists(st.lists(st.integers(0, 50), min_size=1, max_size=5), max_size=5), min_size=1, max_size=4))
def test_merged_logs_are_in_the_order_of_time(logs: list[list[list[int]]]) -> None:
    batches = []
    for number, log in enumerate(logs):
        source = LogSource(f"worker-{number}", (0, 0), "p", "u", "main", 0, f"worker-{number}")
        ordered = iter(sorted(one for batch in log for one in batch))
        batches.append([LogBatch([line(next(ordered), source=source) for _ in batch]) for batch in log])
    found = [one for batch in _merge(*batches) for one in batch.lines]
    assert [one.stamp for one in found] == sorted(one.stamp for log in batches for each in log for one in each.lines)


def test_a_note_stands_before_the_lines_that_follow_it() -> None:
    note = LogBatch(note="attempt 2", source=SOURCE)
    found = _merge([LogBatch([line(1)]), note, LogBatch([line(3)])], [LogBatch([line(2)])])
    assert [batch.note or "".join(one.text for one in batch.lines) for batch in found] == ["1", "attempt 2", "23"]
