"""The page that compares with other projects: no cell about one of them without its source."""

import re
from pathlib import Path

PAGE = (Path(__file__).parents[1] / "docs" / "comparison.md").read_text()
SOURCES = dict(re.findall(r"^\[([a-z0-9-]+)\]: (https://\S+)$", PAGE, re.MULTILINE))
CITED = re.compile(r"\]\[([a-z0-9-]+)\]")
NOT_FOUND = "[not found](#how-the-facts-were-collected)"
REPOSITORIES = {
    **{name: name.lower() for name in ("JobSet", "Kueue", "Trainer", "Volcano", "LWS", "KubeRay")},
    "NVRx": "nvidia-resiliency-ext",
}
"""Of each project whose version a column names, the repository."""
VERSION = r"\d+(?:\.\d+)+"


def tables() -> list[list[list[str]]]:
    """The tables that have a project in each column: a row of their names, then rows of a title and its cells."""
    blocks = re.findall(r"^\| \| .*\n(?:\|.*\n)+", PAGE, re.MULTILINE)
    return [[re.split(r" \| ", row.strip("| ")) for row in block.splitlines() if "---" not in row] for block in blocks]


def test_each_cell_about_another_project_has_a_source_and_each_row_all_its_cells() -> None:
    assert len(tables()) == 4
    wrong = []
    for names, *rows in tables():
        assert len(names) == 4
        for title, *cells in rows:
            wrong += [(title, "cells")] * (len(cells) != len(names))
            peers = [pair for pair in zip(names, cells, strict=False) if not pair[0].startswith("this project")]
            wrong += [(title, name) for name, cell in peers if not CITED.search(cell) and NOT_FOUND not in cell]
    assert wrong == []


def test_tables_of_one_kind_have_the_same_rows() -> None:
    first, second, third, fourth = ([row[0] for row in rows[1:]] for rows in tables())
    assert (first, second) == (third, fourth)


def test_each_source_is_there_and_cited() -> None:
    assert set(CITED.findall(PAGE)) == set(SOURCES)


def versions_of(repository: str) -> set[str]:
    """The versions that the sources name of a repository."""
    at = re.compile(rf"/{repository}/(?:tree|releases?(?:/tag)?)/v({VERSION})$")
    return {found[1] for found in map(at.search, SOURCES.values()) if found}


def test_each_column_says_the_versions_of_its_sources_and_the_date_on_which_they_were_read() -> None:
    named: set[str] = set()
    for names, (title, *dated), *_ in tables():
        assert title == "as of"
        for column, cell in zip(names, dated, strict=True):
            assert re.match(r"\d{4}-\d{2}-\d{2}: ", cell), column
            read: set[str] = set()
            for part in column.split(" with "):
                if versions := re.findall(VERSION, part):
                    found = versions_of(REPOSITORIES[part.split()[0]])
                    assert set(versions) == {version.rpartition(".")[0] for version in found}, column
                    named.add(part.split()[0])
                    read |= found
            assert set(re.findall(rf"(?<![\d.-]){VERSION}", cell)) == read, column
    assert named == set(REPOSITORIES)
