"""Blocks of commands and their output in documents, run as they are written and compared.

Durations and addresses may differ, blanks too. `...` stands for the rest of a line, or on a line
of its own for any lines.
"""

import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from frameworkclient import __version__
from testkit.waiting import eventually
from tests.support.pages import blocks

# What only looks may be repeated until it sees what it should.
_LOOKS = re.compile(r"frameworkctl (list|describe|logs|why|get|events) ")
_DURATION = re.compile(r"\b(?:\d+[smhd])+\b")
_IP = re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}\b")


class Step(NamedTuple):
    """A command for bash, and what it prints, on stdout and stderr."""

    command: str
    output: str


def built_here(text: str) -> str:
    """Return the text of a page with the images that are built here instead of those of this version."""
    return text.replace(f"frameworkcontroller/barrier:{__version__}", "frameworkcontroller/barrier:dev")


def steps(page: Path, folder: Path) -> Iterator[Step]:
    """Yield the commands of a page in order; files of the page are written when they come."""
    for block in blocks(str(page)):
        text = built_here(block.text)
        if block.file:
            (folder / block.file).write_text(text)
        elif block.kind == "console":
            for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
                command, _, output = part.partition("\n")
                yield Step(command, output)


def run(step: Step, folder: Path, environ: Mapping[str, str]) -> str:
    """Return what a command prints."""
    done = subprocess.run(
        ["bash", "-c", step.command], cwd=folder, env={**os.environ, **environ},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    return done.stdout


def check(step: Step, folder: Path, environ: Mapping[str, str], names: Mapping[str, str]) -> None:
    """Run a command, one that only looks again and again, until it prints what is documented; see `matches`."""

    def prints() -> None:
        printed = run(step, folder, environ)
        assert matches(printed, step.output, names), f"$ {step.command}\n{printed}\nbut the page says\n{step.output}"

    if _LOOKS.search(f"{step.command} "):
        eventually(prints, timeout=30, interval=0.5)
    else:
        prints()


def matches(printed: str, documented: str, names: Mapping[str, str]) -> bool:
    """Report whether an output is the documented one; `names` are those of things here, with those in the document."""
    for own, name in names.items():
        printed = printed.replace(own, name)
    pattern = ""
    for line in _normal(documented).splitlines():
        if line == "...":
            pattern += r"(?:.*\n)*"
        else:
            pattern += r".*".join(re.escape(part) for part in re.split(r" ?\.\.\.", line)) + r"\n"
    return re.fullmatch(pattern, _normal(printed)) is not None


def _normal(text: str) -> str:
    text = _IP.sub("IP", _DURATION.sub("AGE", text))
    return "".join(" ".join(line.split()) + "\n" for line in text.splitlines())
