"""Jars of Maven Central for image builds, by locks: lines as sha256sum writes them, with paths in the repository."""

from __future__ import annotations

import hashlib
import http.client
import re
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from typing import TYPE_CHECKING

import tenacity

from localcluster.errors import SetupError
from localcluster.progress import Progress, task

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

CENTRAL = "https://repo1.maven.org/maven2"
SUFFIX = ".jars"
_NAME = r"[A-Za-z0-9_][A-Za-z0-9_.+-]*"
_LINE = re.compile(rf"([0-9a-f]{{64}})  ((?:{_NAME}/)+{_NAME}\.jar)")
_TIMEOUT_SECONDS = 30.0
_TRIES = 4
_FAULTS = (OSError, http.client.HTTPException)
_AT_A_TIME = 8


def read_lock(file: Path) -> dict[str, str]:
    """Return the SHA-256 checksums of the jars in a lock, by their paths in the repository.

    Raises:
        SetupError: A line is something else.
    """
    found: dict[str, str] = {}
    for number, line in enumerate(file.read_text().splitlines(), 1):
        match = _LINE.fullmatch(line)
        if not match:
            raise SetupError(f"{file}, line {number}: must be a SHA-256 checksum, two blanks and the path of a jar")
        found[match[2]] = match[1]
    return found


def download(
    locks: Sequence[Path],
    folder: Path,
    progress: Progress,
    *,
    repository: str = CENTRAL,
    sleep: Callable[[float], None] = time.sleep,
) -> Path | None:
    """Download the jars of locks that a folder does not have yet, and return the folder; None without locks.

    Args:
        locks: Files that `read_lock` reads.
        folder: Keeps the jars under their paths in the repository.
        progress: Shows the download.
        repository: The URL of a Maven repository.
        sleep: Waits before another try.

    Raises:
        SetupError: A lock is wrong, or a jar cannot be downloaded or is not the one of its checksum.
    """
    if not locks:
        return None
    wanted = {path: checksum for lock in locks for path, checksum in read_lock(lock).items()}
    missing = {path: checksum for path, checksum in wanted.items() if not _is_there(folder / path, checksum)}
    if missing:
        with task(progress, f"download the jars of {', '.join(lock.name for lock in locks)}"):
            _download_all(missing, folder, repository, sleep)
    return folder


def _download_all(wanted: Mapping[str, str], folder: Path, repository: str, sleep: Callable[[float], None]) -> None:
    def fetch(path: str) -> None:
        url = f"{repository}/{path}"
        content = _read(url, sleep)
        actual = hashlib.sha256(content).hexdigest()
        if actual != wanted[path]:
            raise SetupError(f"{url} has the SHA-256 checksum {actual}, but the lock says {wanted[path]}")
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f".{target.name}.new")
        temporary.write_bytes(content)
        temporary.replace(target)

    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        # Reading the results raises what the first fault raised.
        list(pool.map(fetch, wanted))


def _read(url: str, sleep: Callable[[float], None]) -> bytes:
    policy = tenacity.Retrying(
        sleep=sleep,
        stop=tenacity.stop_after_attempt(_TRIES),
        wait=tenacity.wait_exponential(),
        retry=tenacity.retry_if_exception(_may_pass),
        reraise=True,
    )
    try:
        return policy(_read_once, url)
    except _FAULTS as error:
        raise SetupError(f"cannot download {url}: {error}") from error


def _read_once(url: str) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT_SECONDS) as answer:
            content: bytes = answer.read()
            return content
    except urllib.error.HTTPError as error:
        # It holds the connection.
        error.close()
        raise


def _may_pass(error: BaseException) -> bool:
    refused = isinstance(error, urllib.error.HTTPError) and error.code < HTTPStatus.INTERNAL_SERVER_ERROR
    return isinstance(error, _FAULTS) and not refused


def _is_there(file: Path, checksum: str) -> bool:
    return file.is_file() and hashlib.sha256(file.read_bytes()).hexdigest() == checksum
