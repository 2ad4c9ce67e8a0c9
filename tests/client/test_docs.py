"""What the pages about the client say, as far as it needs no cluster."""

import re
from pathlib import Path

from typer.testing import CliRunner

from frameworkclient.cli.app import app
from frameworkclient.cli.exits import ExitCode
from tests.support.console import matches

DOCS = Path(__file__).parents[2] / "docs"
CLI = (DOCS / "cli.md").read_text()


def test_the_page_names_every_command_flag_and_exit_code() -> None:
    runner = CliRunner()
    commands = re.findall(r"^  ([a-z]+) {2,}", runner.invoke(app, "--help").output, re.MULTILINE)
    assert len(commands) >= 17
    assert [name for name in commands if not re.search(rf"`{name}\b", CLI)] == []
    helps = [runner.invoke(app, [command, "--help"]).output for command in commands]
    flags = [set(re.findall(r"^  (?:(-\w), )?(--[a-z-]+)", text, re.MULTILINE)) - {("-h", "--help")} for text in helps]
    assert all(flags)
    named = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", CLI))
    pairs = ((command, flag) for command, found in zip(commands, flags, strict=True) for flag in found)
    assert [(command, *flag) for command, flag in pairs if named.isdisjoint(flag)] == []
    assert re.findall(r"^\| (\d+) \|", CLI, re.MULTILINE) == [str(int(code)) for code in ExitCode]


def test_the_program_that_makes_a_framework_runs() -> None:
    found = re.search(r"<!-- test: run -->\n```python\n(?P<program>.*?)```", (DOCS / "sdk.md").read_text(), re.DOTALL)
    assert found is not None
    exec(compile(found["program"], "sdk.md", "exec"), {})


def test_outputs_are_compared_without_what_differs_each_time() -> None:
    documented = "NAME   AGE\na      3s\n...\nlast: more ...\n"
    assert matches("NAME AGE\na    5m12s\nx\ny\nlast: more, and other\n", documented, {})
    assert matches("NAME AGE\na    1s\nlast: more\n", documented, {})
    assert not matches("NAME AGE\nb    1s\nlast: more\n", documented, {})
    assert matches("ns/training\n", "demo/training\n", {"ns": "demo"})
