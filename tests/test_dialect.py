"""The one dialect of the house, as far as ruff cannot check it."""

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


# Two backticks, and the roles of Sphinx. Three backticks begin a block of Markdown, in tests of documents.
OTHER_DIALECT = re.compile(r"(?<!`)``(?!`)|:(class|func|meth|mod|attr|data):`")


@each("file", SOURCES, ids=lambda file: str(file.relative_to(ROOT)))
def test_code_in_prose_has_single_backticks_and_a_suppression_its_rule_and_reason(file: Path) -> None:
    for number, line in enumerate(file.read_text().splitlines(), 1):
        assert not OTHER_DIALECT.search(line), f"line {number}: {line.strip()}"
        if "noqa" in line and not line.startswith("# ruff: noqa"):
            assert NOQA.search(line), f"line {number}: {line.strip()}"
