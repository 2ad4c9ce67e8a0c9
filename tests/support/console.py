"""Blocks of commands and their output in documents, run as they are written and compared.

Durations and addresses may differ, blanks too. `...` stands for the rest of a line, or on a line
of its own for any lines.
"""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from frameworkclient import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_BLOCKS = re.compile(r"(?:<!-- file: (?P<file>\S+) -->\n)?```(?P<kind>\w*)\n(?P<text>.*?)```", re.DOTALL)
_DURATION = re.compile(r"\b(?:\d+[smhd])+\b")
_IP = re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}\b")


@dataclass(frozen=True)
class Step:
    """A command with its output.

    Attributes:
        command: For bash.
        output: What it prints, on stdout and stderr.
    """

    command: str
    output: str


def built_here(text: str) -> str:
    """Return the text of a page with the images that are built here instead of those of this version."""
    return text.replace(f"frameworkcontroller/barrier:{__version__}", "frameworkcontroller/barrier:dev")


def steps(page: Path, folder: Path) -> Iterator[Step]:
    """Yield the commands of a page in order; files of the page are written when they come."""
    for block in _BLOCKS.finditer(built_here(page.read_text())):
        if block["file"]:
            (folder / block["file"]).write_text(block["text"])
        elif block["kind"] == "console":
            for part in re.split(r"^\$ ", block["text"], flags=re.MULTILINE)[1:]:
                command, _, output = part.partition("\n")
                yield Step(command, output)


def run(step: Step, folder: Path, environ: Mapping[str, str]) -> str:
    """Return what a command prints."""
    done = subprocess.run(
        ["bash", "-c", step.command],
        cwd=folder,
        env={**os.environ, **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.stdout


def matches(printed: str, documented: str, names: Mapping[str, str]) -> bool:
    """Report whether an output is the documented one.

    Args:
        printed: The output.
        documented: The output in the document.
        names: What the document calls things of this run: their names here to those there.
    """
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
