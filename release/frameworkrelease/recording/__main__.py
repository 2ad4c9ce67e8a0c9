"""`python -m frameworkrelease.recording`: record the scene on a local node, and write docs/frameworkctl.svg."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import localcluster
from frameworkdemo import manifests
from frameworkdemo.errors import DemoError
from frameworkdemo.progress import Steps
from frameworkdemo.run import install
from frameworkdemo.target import LocalTarget
from frameworkrelease.recording import scene
from frameworkrelease.recording.frames import tidied
from frameworkrelease.recording.picture import svg
from frameworkrelease.recording.terminal import RecordingError, Terminal
from localcluster import packages
from localcluster.progress import Lines

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from frameworkrelease.recording.frames import Frame

FILE: Final = Path(__file__).parents[3] / "docs" / "frameworkctl.svg"
_LAST_SECONDS: Final = 4.0
"""How long the last frame stays."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    It is 0, 1 if nothing could be recorded, 2 for wrong usage, 130 if interrupted.
    """
    parser = argparse.ArgumentParser(
        prog="frameworkrelease.recording", description="Record frameworkctl on a real node into docs/frameworkctl.svg."
    )
    parser.add_argument("--cluster", default="recording", help="the local cluster; one that runs already stays")
    name = parser.parse_args(argv).cluster
    was_there = localcluster.get(name) is not None
    try:
        packages.require(["tmux"], Lines())
        frames = _recorded(_kubeconfig(name))
    except (DemoError, localcluster.LocalClusterError, RecordingError) as error:
        sys.stderr.write(f"FAILED: {error}\n")
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        if not was_there:
            localcluster.down(name)
    FILE.write_text(svg(frames, frames[-1].at + _LAST_SECONDS, scene.COLUMNS, scene.LINES, scene.TITLE))
    return 0


def _kubeconfig(name: str) -> Path:
    """Start the node with the three programs, and return its kubeconfig."""
    install(Steps(), LocalTarget(name, manifests.PROGRAM_IMAGES))
    cluster = localcluster.get(name)
    assert cluster is not None
    return cluster.kubeconfig


def _recorded(kubeconfig: Path) -> list[Frame]:
    programs = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    environ = {"PATH": programs, "KUBECONFIG": str(kubeconfig)}
    # The shell may write into its home once more while it ends.
    with tempfile.TemporaryDirectory(prefix="recording-", ignore_cleanup_errors=True) as folder:
        (Path(folder) / "train.py").write_text(scene.PROGRAM)
        with Terminal(Path(folder), scene.COLUMNS, scene.LINES, environ) as terminal:
            terminal.record_until(terminal.is_ready, "the shell")
            terminal.frames.clear()
            for step in scene.STEPS:
                if step.after:
                    terminal.record_until(partial(_is_listed, step.after, environ), f"{step.after} in the list")
                _take(terminal, step)
            return tidied(terminal.frames)


def _is_listed(text: str, environ: Mapping[str, str]) -> bool:
    done = subprocess.run(["frameworkctl", "list"], env=environ, capture_output=True, text=True, check=False)
    return text in done.stdout


def _take(terminal: Terminal, step: scene.Step) -> None:
    for line in step.command.split("\n"):
        terminal.type(line)
    terminal.record(0.3)
    terminal.record_until(terminal.is_ready, step.command)
    terminal.record(step.pause)


if __name__ == "__main__":
    sys.exit(main())
