"""What the pages about the client say, as far as it needs no cluster."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from typer.testing import CliRunner

import frameworkclient
from frameworkclient.cli.app import app
from frameworkclient.cli.exits import ExitCode
from tests.support.console import matches
from tests.support.rows import each

DOCS = Path(__file__).parents[2] / "docs"
CLI = (DOCS / "cli.md").read_text()
SDK = (DOCS / "reference" / "sdk.md").read_text()


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


PARTS = re.split(r"^## `(\w+)`$", SDK, flags=re.MULTILINE)
SECTIONS = dict(zip(PARTS[1::2], PARTS[2::2], strict=True))
"""The text of the reference below the heading of each name."""


def test_the_reference_names_everything_that_the_sdk_exports() -> None:
    assert [name for name in frameworkclient.__all__ if f"`{name}`" not in SDK] == []
    # Errors are a table; the methods of AsyncClient are those of Client.
    others = {name for name in frameworkclient.__all__ if not name.endswith("Error")} - set(SECTIONS)
    assert others == {"AsyncClient", "FrameworkViews", "__version__"}


@each("name, section", SECTIONS.items(), ids=SECTIONS)
def test_the_reference_names_each_member_and_parameter(name: str, section: str) -> None:
    thing = getattr(frameworkclient, name)
    signatures = re.findall(r"^(?:### )?`([\w.]+)\((.*)\)`$", section, re.MULTILINE)
    written = {called: set(re.findall(r"(?:^|, )\**(\w+)", arguments)) for called, arguments in signatures}
    members = [f"{name}.{key}" for key in vars(thing) if not key.startswith("_")] if inspect.isclass(thing) else []
    for path in {*members, *written}:
        key = path.partition(".")[2]
        found = getattr(thing, key) if key else thing
        if callable(found):
            assert written.get(path) == set(inspect.signature(found).parameters) - {"self"}, path
        else:
            assert f"- `{key}`: " in section or key in written[name], path


def test_outputs_are_compared_without_what_differs_each_time() -> None:
    documented = "NAME   AGE\na      3s\n...\nlast: more ...\n"
    assert matches("NAME AGE\na    5m12s\nx\ny\nlast: more, and other\n", documented, {})
    assert matches("NAME AGE\na    1s\nlast: more\n", documented, {})
    assert not matches("NAME AGE\nb    1s\nlast: more\n", documented, {})
    assert matches("ns/training\n", "demo/training\n", {"ns": "demo"})
