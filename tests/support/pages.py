"""The commands of the manual: blocks of Markdown, typed into a shell as a person types them."""

from __future__ import annotations

import os
import re
import subprocess
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING

from frameworkrelease import chart
from frameworkrelease.chart import REPOSITORY

if TYPE_CHECKING:
    from pathlib import Path

    from localcluster import Cluster

_PART = re.compile(
    r"^#{1,6} (?P<heading>[^\n]+)$"
    r"|^(?:<!-- file: (?P<file>\S+) -->\n)?(?P<indent> *)```(?P<kind>\w*)\n(?P<text>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """One block of a page.

    Attributes:
        page: The path of the page in the repository.
        heading: The heading above it.
        kind: What follows the fence: `sh` for commands that a test types, `yaml`, or "".
        file: The file that it is to be written to, from the comment above it; "" if there is none.
        text: What it holds, without the indentation of a list.
    """

    page: str
    heading: str
    kind: str
    file: str
    text: str


def blocks(page: str) -> list[Block]:
    """Return the blocks of a page in their order."""
    heading, found = "", []
    for part in _PART.finditer((REPOSITORY / page).read_text()):
        if part["heading"] is None:
            found.append(Block(page, heading, part["kind"], part["file"] or "", textwrap.dedent(part["text"])))
        else:
            heading = part["heading"]
    return found


def commands_of(page: str, heading: str) -> list[str]:
    """Return the shell commands below a heading, block by block."""
    return [block.text for block in blocks(page) if (block.heading, block.kind) == (heading, "sh")]


def typed(cluster: Cluster, commands: str, folder: Path) -> str:
    """Run commands as a person types them in the repository, with helm and kubectl in PATH, and return what they print.

    Args:
        cluster: The cluster that kubectl and helm talk to.
        commands: The commands, one or more lines.
        folder: The folder in which they run: it gets links to what the repository has, and the files that they write.

    Raises:
        AssertionError: A command failed; the text holds its output.
    """
    tools = folder / "bin"
    tools.mkdir(exist_ok=True)
    links = {tools / name: chart.program(name) for name in ("helm", "kubectl")}
    links |= {folder / name: REPOSITORY / name for name in ("charts", "deploy", "kustomize")}
    for link, target in links.items():
        if not link.exists():
            link.symlink_to(target)
    environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig), "PATH": f"{tools}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-euxo", "pipefail", "-c", commands],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
