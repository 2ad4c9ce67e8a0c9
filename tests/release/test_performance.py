"""What the benchmarks have measured: the file, and the tables of the page that say what is in it and nothing else."""

from pathlib import Path

import pytest

from frameworkrelease.__main__ import main
from frameworkrelease.commands import ReleaseError
from frameworkrelease.generate import performance
from frameworkrelease.generate.performance import merged, row, table, tables

BARE = row("1x100", "bare loop", {"CPU s": 0.5, "all run s": 1.0, "machine": "x86_64, 2 cores"})
OURS = row("1x100", "controller", {"CPU s": 1.25, "all run s": 1.2, "all requests": 620, "queue p99 s, at most": None})
PAGE = """\
# Performance

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


def test_the_page_has_every_figure_of_the_file_and_no_other_column() -> None:
    rows = performance.read()
    lines = performance.PAGE.read_text().splitlines()
    heads = [line[2:-2].split(" | ") for line in lines if line.startswith("| shape | by |")]
    missing = [
        (one["shape"], one["by"], name)
        for one in rows
        for name in one
        if name not in performance.ORIGIN and not any(name in head and head[2] in one for head in heads)
    ]
    assert missing == []
    assert {name for head in heads for name in head} <= {name for one in rows for name in one}
    assert len(heads) > 5


def test_the_rows_of_a_table_are_made_and_all_else_stays() -> None:
    assert tables(PAGE, [BARE, OURS]) == PAGE.replace(
        "| 1x10 | controller | 1 | 2 |", "| 1x100 | controller | 620 | 1.25 |"
    ) + ("| 1x100 | bare loop | 0.5 |\n| 1x100 | controller | 1.25 |\n")


def test_a_table_has_the_rows_with_its_first_figure_and_an_empty_cell_for_another_that_was_not_measured() -> None:
    assert list(table(["CPU s", "all requests"], [BARE, OURS])) == [
        "| shape | by | CPU s | all requests |",
        "| --- | --- | --- | --- |",
        "| 1x100 | bare loop | 0.5 |  |",
        "| 1x100 | controller | 1.25 | 620 |",
    ]
    assert len(list(table(["all requests", "CPU s"], [BARE]))) == 2


def test_numbers_have_two_digits_and_what_is_none_is_left_out() -> None:
    found = row("1x1", "controller", {"a": 1 / 3, "b": 2, "c": None, "d": "96Mi", "e": 1000.0})
    assert found == {"shape": "1x1", "by": "controller", "a": "0.33", "b": "2", "d": "96Mi", "e": "1000.0"}


def test_new_figures_replace_those_of_the_same_shape_and_keep_the_others() -> None:
    again, other = (row(shape, "bare loop", {"all run s": 9.0}) for shape in ("1x100", "1x1000"))
    assert merged([BARE, OURS], [again, other]) == [again, OURS, other]


def test_the_tables_for_those_who_measure_are_those_of_the_page_with_rows() -> None:
    assert [line for line in performance.of_page([OURS]) if line.startswith("| 1x100")] == []
    started = row("1x100", "controller", {"start p50 s": 0.5})
    assert list(performance.of_page([started]))[-1].startswith("| 1x100 | controller | 0.5 |")


def test_new_figures_come_into_the_file_and_onto_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept, new, page = (tmp_path / name for name in ("kept.csv", "folder/new.csv", "page.md"))
    performance.write([BARE], kept)
    performance.write([OURS], new)
    page.write_text(PAGE)
    performance.take_over([new], kept, page)
    assert performance.read(kept) == [BARE, OURS]
    assert page.read_text() == tables(PAGE, [BARE, OURS])
    with pytest.raises(ReleaseError, match="run a benchmark first"):
        performance.take_over([], kept, page)
    with pytest.raises(SystemExit):
        main(["scale", "none.csv"])
    assert "'none.csv' does not exist" in capsys.readouterr().err
