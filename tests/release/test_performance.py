"""What the benchmarks have measured: the file, and the tables of the page that say what is in it and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from frameworkrelease import performance
from frameworkrelease.performance import merged, row, table, tables

if TYPE_CHECKING:
    from pathlib import Path

BARE = row("1x100", "bare loop", {"CPU s": 0.5, "all run s": 1.0, "machine": "x86_64, 2 cores"})
OURS = row("1x100", "controller", {"CPU s": 1.25, "all run s": 1.2, "all requests": 620, "queue p99 s, at most": None})
PAGE = """\
# Scale

| shape | by | all requests | CPU s |
| --- | --- | --- | --- |
| 1x10 | controller | 1 | 2 |

Prose | with bars.

| shape | what happens |
| --- | --- |
| 1x100 | a start |

| shape | by | CPU s |
| --- | --- | --- |
"""


def test_every_figure_of_the_file_is_on_the_page() -> None:
    page, rows = performance.PAGE.read_text(), performance.read()
    heads = [line[2:-2].split(" | ") for line in page.splitlines() if line.startswith("| shape | by |")]
    missing = [
        (one["shape"], one["by"], name)
        for one in rows
        for name in one
        if not any(name in head and head[2] in one for head in heads)
    ]
    assert missing == []


def test_every_column_of_the_page_is_one_of_the_file() -> None:
    known = {name for one in performance.read() for name in one}
    heads = [line for line in performance.PAGE.read_text().splitlines() if line.startswith("| shape | by |")]
    assert [name for line in heads for name in line[2:-2].split(" | ") if name not in known] == []
    assert len(heads) > 5


def test_the_rows_of_a_table_are_made_and_all_else_stays() -> None:
    assert tables(PAGE, [BARE, OURS]) == PAGE.replace(
        "| 1x10 | controller | 1 | 2 |", "| 1x100 | controller | 620 | 1.25 |"
    ) + ("| 1x100 | bare loop | 0.5 |\n| 1x100 | controller | 1.25 |\n")


def test_what_was_not_measured_is_an_empty_cell() -> None:
    assert list(table(["CPU s", "all requests"], [BARE, OURS]))[2:] == [
        "| 1x100 | bare loop | 0.5 |  |",
        "| 1x100 | controller | 1.25 | 620 |",
    ]


def test_a_measurement_without_the_first_figure_of_a_table_is_not_in_it() -> None:
    assert list(table(["all requests", "CPU s"], [BARE])) == [
        "| shape | by | all requests | CPU s |",
        "| --- | --- | --- | --- |",
    ]


def test_numbers_have_two_digits_and_what_is_none_is_left_out() -> None:
    found = row("1x1", "controller", {"a": 1 / 3, "b": 2, "c": None, "d": "96Mi", "e": 1000.0})
    assert found == {"shape": "1x1", "by": "controller", "a": "0.33", "b": "2", "d": "96Mi", "e": "1000.0"}


def test_new_figures_replace_those_of_the_same_shape_and_keep_the_others() -> None:
    again = row("1x100", "bare loop", {"all run s": 9.0})
    other = row("1x1000", "bare loop", {"all run s": 10.0})
    assert merged([BARE, OURS], [again, other]) == [again, OURS, other]


def test_figures_survive_their_file(tmp_path: Path) -> None:
    performance.write([BARE, OURS], tmp_path / "new" / "figures.csv")
    assert performance.read(tmp_path / "new" / "figures.csv") == [BARE, OURS]


def test_the_tables_for_those_who_measure_are_those_of_the_page_with_rows() -> None:
    lines = list(performance.of_page([OURS]))
    assert "| 1x100 | controller | 620 |" not in lines
    assert [line for line in lines if line.startswith("| 1x100")] == []
    started = row("1x100", "controller", {"start p50 s": 0.5})
    assert list(performance.of_page([started]))[-1].startswith("| 1x100 | controller | 0.5 |")


def test_a_file_that_is_not_there_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        performance.main([str(tmp_path / "none.csv")])
    assert "none.csv: there is no such file" in capsys.readouterr().err


def test_new_figures_come_into_the_file_and_onto_the_page(tmp_path: Path) -> None:
    kept, new, page = (tmp_path / name for name in ("kept.csv", "new.csv", "page.md"))
    performance.write([BARE], kept)
    performance.write([OURS], new)
    page.write_text(PAGE)
    assert performance.main([str(new)], kept, page) == 0
    assert performance.read(kept) == [BARE, OURS]
    assert page.read_text() == tables(PAGE, [BARE, OURS])
