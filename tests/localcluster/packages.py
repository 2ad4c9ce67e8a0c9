"""The distribution's packages that a node and image builds need, installed when something is missing."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from localcluster.errors import SetupError
from localcluster.progress import Progress, task

if TYPE_CHECKING:
    from collections.abc import Sequence

_INSTALL = Path(__file__).with_name("install-apt")


def require(commands: Sequence[str], progress: Progress) -> None:
    """Make sure that these commands are installed; milliseconds when they are.

    Args:
        commands: Names that the script `install-apt` knows.
        progress: Who is told when packages have to be installed.

    Raises:
        SetupError: They are missing and could not be installed; the text is the script's.
    """
    look = subprocess.run([_INSTALL, "--missing", *commands], capture_output=True, text=True, check=False)
    missing = look.stdout.split()
    if look.returncode == 0 and not missing:
        return
    with task(progress, f"install {' '.join(missing)}"):
        done = subprocess.run([_INSTALL, *commands], capture_output=True, text=True, check=False)
        if done.returncode:
            raise SetupError(done.stderr.strip() or done.stdout.strip())
