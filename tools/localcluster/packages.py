"""The distribution's packages that a node and image builds need; missing ones are installed."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from localcluster.errors import SetupError
from localcluster.progress import task

_INSTALL = Path(__file__).with_name("install-apt")


def require(commands: Sequence[str]) -> None:
    """Install the packages of commands that `install-apt` knows, if one is missing; a check alone takes milliseconds.

    Raises:
        SetupError: Commands are missing and could not be installed; the text is the script's.
    """
    look = subprocess.run([_INSTALL, "--missing", *commands], capture_output=True, text=True, check=False)
    missing = look.stdout.split()
    if look.returncode == 0 and not missing:
        return
    with task(f"install {' '.join(missing)}"):
        done = subprocess.run([_INSTALL, *commands], capture_output=True, text=True, check=False)
        if done.returncode:
            raise SetupError(done.stderr.strip() or done.stdout.strip())
