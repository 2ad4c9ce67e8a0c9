"""Locks between processes, by files: a lock ends with the process that holds it, however that process ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextlib.contextmanager
def locked(file: Path) -> Iterator[None]:
    """Hold the lock of a file while the block runs; the file and its folder are made if they are missing.

    The holder may remove the file: a process that waited for it notices that, and takes the lock of the new file.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    while True:
        with file.open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if _is_open_as(lock.fileno(), file):
                yield
                return


def _is_open_as(descriptor: int, file: Path) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), file.stat())
    return False
