"""The commands of the manual: blocks of Markdown, typed into a shell as a person types them."""

import functools
import os
import re
import shutil
import subprocess
import tempfile
import textwrap
from dataclasses import dataclass
from pathlib import Path

from frameworkrelease import chart
from frameworkrelease.chart import REPOSITORY
from localcluster import Cluster

TRACKED = subprocess.run(["git", "ls-files"], cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout.split()
PAGES = [file for file in TRACKED if file.endswith(".md")]
_TOOLS = (
    "base64 cat cosign curl docker etcdutl git go grep gunzip head helm kind kubectl mkdir oauth2-proxy pip sed "
    "sha256sum skopeo sleep sort tar tr wc"
)
PROGRAMS = {*_TOOLS.split(), "frameworkctl", "make", "pytest", "python", "python3"}
"""What pages call; a block without a kind that begins with one of them holds commands."""
_BEGIN = re.compile(rf"(for|export|\.|\w+=\S*|(\.venv/bin/)?({'|'.join(PROGRAMS)}))\s")
# Bash finds no program, and a loop that waits ends the block.
_RECORDER = r"""
cd() { :; }
command_not_found_handle() { printf '%s\x1f' "$@" $'\x1e' >> "$RECORD"; [ "$1" != sleep ] || kill $$; }
"""
_PART = re.compile(
    r"^#{1,6} (?P<heading>[^\n]+)$"
    r"|^(?:<!-- file: (?P<file>\S+) -->\n)?(?P<indent> *)```(?P<kind>[^`\n]*)\n(?P<text>.*?)^(?P=indent)```$",
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


def shell_of(block: Block) -> str:
    """Return the commands in a block, without what they print; "" if it holds none."""
    text = re.sub(r"\\\n\s*", "", block.text)
    if block.kind == "console" or text.startswith("$ "):
        return "\n".join(re.findall(r"^\$ (.*)$", text, re.MULTILINE))
    return text if block.kind == "sh" or (block.kind == "" and _BEGIN.match(text)) else ""


@functools.cache
def words_of(shell: str) -> list[list[str]]:
    """Return the words of each command, as bash would give them to its program; none of them runs.

    Raises:
        ValueError: Bash cannot read the commands.
    """
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder, "record")
        record.touch()
        done = subprocess.run(
            [shutil.which("bash") or "bash", "-c", _RECORDER + shell.replace(".venv/bin/", "")], cwd=folder,
            env={"PATH": folder, "RECORD": str(record)}, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            check=False, timeout=10,
        )  # fmt: skip
        if re.search("syntax error|unexpected", done.stderr):
            raise ValueError(done.stderr)
        return [command.split("\x1f")[:-1] for command in record.read_text().split("\x1e\x1f")[:-1]]


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
