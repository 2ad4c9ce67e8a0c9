"""The page of troubleshooting quotes what the programs say, and says something of every completion code."""

import ast
import re
from collections.abc import Iterator
from typing import Final

from frameworkcontroller.api import names
from frameworkrelease.chart import CHART, REPOSITORY
from frameworkrelease.generate import codes
from tests.support.rows import each

TEXT: Final = codes.PAGE.read_text()
PROGRAMS: Final = ("barrier", "injector", "controller", "client", "kube", "history")
OTHERS: Final = re.compile(r"[A-Z]\w+: `")
"""Who says what follows, where it is none of the programs."""


def messages() -> Iterator[str]:
    """The code in the first cell of each row of a table of messages, up to that of others."""
    for table in re.findall(r"^\| message \|.*\n\| ---.*\n((?:\|.*\n)+)", TEXT, re.MULTILINE):
        for cell in re.findall(r"^\| (.*?) \| ", table, re.MULTILINE):
            yield from re.findall(r"`([^`]+)`", OTHERS.split(cell)[0])


def said() -> Iterator[str]:
    """The texts of the programs, `...` where something is filled in; comments and docstrings are none."""
    for file in (file for program in PROGRAMS for file in (REPOSITORY / program).rglob("*.py")):
        nodes = list(ast.walk(ast.parse(file.read_text())))
        silent = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        for node in nodes:
            if isinstance(node, ast.JoinedStr):
                yield "".join(str(part.value) if isinstance(part, ast.Constant) else "..." for part in node.values)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in silent:
                yield node.value
    yield from (file.read_text() for file in CHART.rglob("*.yaml"))
    yield from map(str, vars(names).values())


SAID: Final = "\0".join(said())


@each("message", messages())
def test_a_message_of_the_page_is_one_of_the_programs(message: str) -> None:
    found = "[^\0]*?".join(re.escape(part) for part in message.removeprefix("...").split("..."))
    assert re.search(rf"(?<!\w){found}(?!\w)" if re.fullmatch(r"\w+", message) else found, SAID), message


def test_each_row_of_the_page_says_what_to_do() -> None:
    assert len(list(messages())) > 100
    assert re.findall(r"^\|.*\| *\|.*", TEXT, re.MULTILINE) == []
