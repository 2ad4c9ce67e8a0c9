"""Which lines `logs --grep` and `--grep-text` choose, and what is said of an expression that cannot be used."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frameworkclient import ArgumentError, Client
from frameworkclient.logs.lines import MAX_LINE_BYTES, LogLine
from frameworkclient.logs.selection import LogSelection
from tests.client.test_start import kubeconfig
from tests.client.test_log_lines import SOURCE, stamp

if TYPE_CHECKING:
    from pathlib import Path

LONG = 8192
TABLE = {
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
UNUSABLE = {
    "an open bracket": ("(", "grep (: not a regular expression in RE2 syntax: missing ): ("),
    "a look behind": ("(?<=a)b", "grep (?<=a)b: not a regular expression in RE2 syntax: "),
    "a reference back": (r"(a)\1", r"grep (a)\1: not a regular expression in RE2 syntax: "),
    "bytes that are no text": ("\udcff", "not a regular expression in RE2 syntax: "),
}
PACKAGE = "grep: needs the package google-re2: pip install 'frameworkcontroller[client]', or use grep_text"


def is_found(text: str, grep: str = "", grep_text: str = "") -> bool:
    return bool(LogSelection(grep=grep, grep_text=grep_text).matching([LogLine(SOURCE, stamp(1), text)]))


@pytest.mark.parametrize("name", TABLE)
def test_a_whole_line_is_searched(name: str) -> None:
    grep, grep_text, line, expected = TABLE[name]
    assert is_found(line, grep, grep_text) is expected


@given(st.integers(0, LONG))
def test_what_is_looked_for_is_found_anywhere_in_a_long_line(place: int) -> None:
    line = "x" * place + "error: timeout" + "x" * (LONG - place)
    assert is_found(line, "error.*timeout", ": t")
    assert not is_found(line, "other")
    assert not is_found(line, "", "other")


@pytest.fixture
def config(tmp_path: Path) -> str:
    """Of a cluster that does not answer: nothing is asked of it."""
    return kubeconfig(tmp_path / "config")


def run(config: str, *flags: str, before: str = "") -> subprocess.CompletedProcess[str]:
    program = f"import sys\n{before}\nfrom frameworkclient.__main__ import main\nmain()"
    command = [sys.executable, "-c", program, "logs", "training", "--kubeconfig", config, *flags]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", UNUSABLE)
def test_an_expression_that_cannot_be_used_is_wrong_usage(name: str, config: str) -> None:
    grep, message = UNUSABLE[name]
    done = run(config, f"--grep={grep}")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done
    assert done.stderr.startswith("frameworkctl: --grep ")
    assert message in done.stderr
    with Client(kubeconfig=config) as client, pytest.raises(ArgumentError) as found:
        client.logs("training", grep=grep)
    assert message in str(found.value)


def test_without_the_package_an_expression_is_refused_and_the_package_named(
    config: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = "sys.modules['re2'] = None"
    done = run(config, "--grep=error", before=absent)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done
    assert done.stderr.startswith(f"frameworkctl: --{PACKAGE}")
    # A text needs no package: the command comes as far as the cluster.
    assert "get Framework" in run(config, "--grep-text=error", before=absent).stderr
    monkeypatch.setitem(sys.modules, "re2", None)
    with Client(kubeconfig=config) as client, pytest.raises(ArgumentError) as found:
        client.logs("training", grep="an expression of this test")
    assert str(found.value).startswith(PACKAGE)
    client.logs("training", grep_text="error")
