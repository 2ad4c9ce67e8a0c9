"""Jars of Maven Central for image builds, by locks: lines as sha256sum writes them, with paths in the repository."""

import logging
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pooch

from localcluster.errors import SetupError
from localcluster.progress import task

CENTRAL = "https://repo1.maven.org/maven2"
SUFFIX = ".jars"
_NAME = r"[A-Za-z0-9_][A-Za-z0-9_.+-]*"
_LINE = re.compile(rf"([0-9a-f]{{64}})  ((?:{_NAME}/)+{_NAME}\.jar)")
_RETRIES = 3
_AT_A_TIME = 8


def read_lock(file: Path) -> dict[str, str]:
    """Return the SHA-256 checksums of a lock by the paths of its jars; SetupError if a line is something else."""
    found: dict[str, str] = {}
    for number, line in enumerate(file.read_text().splitlines(), 1):
        match = _LINE.fullmatch(line)
        if not match:
            raise SetupError(f"{file}, line {number}: must be a SHA-256 checksum, two blanks and the path of a jar")
        found[match[2]] = match[1]
    return found


def download(locks: Sequence[Path], folder: Path, *, repository: str = CENTRAL) -> Path:
    """Download the jars of locks that a folder does not have yet, and return the folder.

    The folder keeps them under their paths in the Maven repository.

    Raises:
        SetupError: A lock is wrong, or a jar cannot be downloaded or is not the one of its checksum.
    """
    wanted = {path: checksum for lock in locks for path, checksum in read_lock(lock).items()}
    jars = pooch.create(folder, f"{repository}/", registry=wanted, retry_if_failed=_RETRIES)
    pooch.get_logger().setLevel(logging.WARNING)
    names = ", ".join(lock.name for lock in locks)
    with task(f"download the jars of {names}"), ThreadPoolExecutor(_AT_A_TIME) as pool:
        try:
            # Reading the results raises what the first fault raised.
            for file in pool.map(jars.fetch, wanted):
                # pooch writes for the owner only, and a build may run as another user.
                Path(file).chmod(0o644)
        except (OSError, ValueError) as error:
            raise SetupError(f"cannot download the jars of {names}: {error}") from error
    return folder
