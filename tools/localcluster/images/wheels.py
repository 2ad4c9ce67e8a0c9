"""Wheels of lock files, downloaded once for builds without a network."""

import hashlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from localcluster.errors import SetupError
from localcluster.progress import task

PYTHON = "3.11"
"""The version of Python in the images."""


def download(locks: Sequence[Path], folder: Path) -> Path:
    """Download the wheels of lock files, and return the folder that holds them and nothing else.

    The locks are requirements files that pin hashes; `folder` keeps a folder for each set of them.

    Raises:
        SetupError: pip cannot download one of them; the text is pip's.
    """
    digest = hashlib.sha256(b"".join(lock.read_bytes() for lock in locks)).hexdigest()[:12]
    target = folder / digest
    if target.is_dir():
        return target
    folder.mkdir(parents=True, exist_ok=True)
    for leftover in folder.glob(".new-*"):
        shutil.rmtree(leftover)
    temporary = Path(tempfile.mkdtemp(dir=folder, prefix=".new-"))
    # Readable in the build, which may run as another user.
    temporary.chmod(0o755)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--require-hashes", "--no-deps"]
    command += ["--only-binary=:all:", f"--python-version={PYTHON}", "--dest", str(temporary)]
    command += [word for lock in locks for word in ("-r", str(lock))]
    with task(f"download the wheels of {', '.join(lock.name for lock in locks)}"):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SetupError(f"pip cannot download the wheels of {locks[0]}: {done.stderr.strip()[-2000:]}")
        temporary.replace(target)
    return target
