"""The one dialect of the house, as far as ruff cannot check it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tests.support.rows import each

ROOT = Path(__file__).parents[1]
SOURCES = [
    ROOT / name
    for name in subprocess.run(
        ["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    if (ROOT / name) != Path(__file__)
]
NOQA = re.compile(r"# noqa: [A-Z]+[0-9]+(, [A-Z]+[0-9]+)* -- \S")


def found(pattern: str) -> list[str]:
    """Return `file:line` of each line that has the pattern."""
    return [
        f"{file.relative_to(ROOT)}:{number}"
        for file in SOURCES
        for number, line in enumerate(file.read_text().splitlines(), 1)
        if re.search(pattern, line)
    ]


def test_there_are_sources() -> None:
    assert len(SOURCES) > 100


def test_code_in_prose_stands_in_single_backticks() -> None:
    # Three of them begin a block of Markdown, in tests of documents.
    assert found(r"(?<!`)``(?!`)") == []


def test_no_role_of_sphinx_stands_in_a_docstring() -> None:
    assert found(r":(class|func|meth|mod|attr|data):`") == []


@each("file", SOURCES, ids=lambda file: str(file.relative_to(ROOT)))
def test_a_suppression_names_its_rule_and_its_reason(file: Path) -> None:
    for number, line in enumerate(file.read_text().splitlines(), 1):
        if "noqa" in line and not line.startswith("# ruff: noqa"):
            assert NOQA.search(line), f"line {number}: {line.strip()}"
