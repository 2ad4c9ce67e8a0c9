"""Runs the programs that a release needs, and says what failed."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

_SHOWN_LINES = 15


class ReleaseError(Exception):
    """A step failed, or what it was given is wrong; the text says which and what to do next."""


def run(
    program: str | Path, *arguments: str | Path, folder: Path | None = None, environ: Mapping[str, str] | None = None
) -> str:
    """Run a program in a folder and an environment, by default those of this process, and return its standard output.

    Raises:
        ReleaseError: It failed; the text has the end of its output.
    """
    command = [str(word) for word in (program, *arguments)]
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False)
    if done.returncode:
        end = "\n".join(f"  {line}" for line in (done.stdout + done.stderr).splitlines()[-_SHOWN_LINES:])
        raise ReleaseError(f"`{' '.join(command)}` failed with code {done.returncode}:\n{end}")
    return done.stdout
