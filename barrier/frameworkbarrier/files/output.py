"""Writes files into the shared folder: no reader ever sees a partial file, and no planted link is followed.

The folder is an emptyDir that containers of other users share. It is opened once without following links, and
everything happens relative to that handle: a temporary file in the same folder, then a rename over what is there.
"""

import contextlib
import os
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass

from frameworkbarrier.errors import OutputError, SettingsError

PLAIN = 0o644
SCRIPT = 0o755
LOCK_TRIES = 100
LOCK_PAUSE_SEC = 0.01


@dataclass(frozen=True, slots=True)
class File:
    """One file to write. `in_place`: once it exists it keeps its inode, because a subPath mount pins that."""

    name: str
    data: bytes
    mode: int = PLAIN
    in_place: bool = False


class OutputDirectory:
    """A folder held by a handle. Use as a context manager."""

    def __init__(self, path: str) -> None:
        """Open the folder.

        Raises:
            SettingsError: there is no such folder, or it is a link.
        """
        self.path = path
        try:
            self._handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as fault:
            raise SettingsError(f"FB_OUTPUT_DIR={path}: {fault.strerror}: mount the shared volume there") from fault

    def __enter__(self) -> "OutputDirectory":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._handle)

    def hold(self, sleep: Callable[[float], None] = time.sleep) -> None:
        """Lock the folder until `let_go`, or until the process ends: a startup probe waits for the lock with `flock`.

        A probe that has the lock at this moment is about to fail, and comes again a second later. If somebody keeps the
        lock, or the file system has none, each probe ends at once instead of waiting.
        """
        import fcntl

        for _ in range(LOCK_TRIES):
            try:
                fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                sleep(LOCK_PAUSE_SEC)
            except OSError:
                return
            else:
                return

    def let_go(self) -> None:
        """Give the lock back."""
        import fcntl

        with contextlib.suppress(OSError):
            fcntl.flock(self._handle, fcntl.LOCK_UN)

    def write(self, file: File) -> None:
        """Write one file.

        Raises:
            OutputError: it could not be written; what was there before is unchanged.
        """
        try:
            if not (file.in_place and self._rewrite(file)):
                self._replace(file)
        except OSError as fault:
            raise OutputError(f"cannot write {self.path}/{file.name}: {fault.strerror}") from fault

    def read(self, name: str, limit: int) -> bytes:
        """Return what a regular file begins with, at most `limit` bytes; nothing if there is no such file."""
        try:
            handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=self._handle)
        except OSError:
            return b""
        try:
            return os.read(handle, limit) if stat.S_ISREG(os.fstat(handle).st_mode) else b""
        except OSError:
            return b""
        finally:
            os.close(handle)

    def names(self) -> list[str]:
        """Return what is there."""
        return os.listdir(self._handle)

    def remove(self, name: str) -> None:
        """Remove a file if it is there."""
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=self._handle)

    def _replace(self, file: File) -> None:
        temporary = f".{file.name[:100]}.{os.urandom(6).hex()}.tmp"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        handle = os.open(temporary, flags, 0o600, dir_fd=self._handle)
        try:
            try:
                _write_all(handle, file.data)
                os.fchmod(handle, file.mode)  # not by `open`, from whose mode the umask takes bits
            finally:
                os.close(handle)
            with contextlib.suppress(OSError):
                os.rmdir(file.name, dir_fd=self._handle)  # an empty folder in the way; rename replaces all else
            os.rename(temporary, file.name, src_dir_fd=self._handle, dst_dir_fd=self._handle)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=self._handle)
            raise

    def _rewrite(self, file: File) -> bool:
        """Overwrite an existing regular file; False if there is none that may be written so."""
        try:
            # Non-blocking, so that a planted FIFO cannot block the barrier.
            handle = os.open(file.name, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=self._handle)
        except OSError:
            return False
        try:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
                return False
            _make_room(handle, status.st_size, len(file.data))
            _write_all(handle, file.data)
            os.ftruncate(handle, len(file.data))
            with contextlib.suppress(PermissionError):
                os.fchmod(handle, file.mode)
        finally:
            os.close(handle)
        return True


def _make_room(handle: int, size: int, wanted: int) -> None:
    """Allocate what a longer file needs, so that a full disk is noticed before the old content is overwritten."""
    if wanted > size:
        try:
            os.posix_fallocate(handle, size, wanted - size)
        except OSError:
            os.ftruncate(handle, size)
            raise


def _write_all(handle: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(handle, rest) :]
