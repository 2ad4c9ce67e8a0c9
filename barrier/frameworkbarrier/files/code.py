"""Puts the files of a job where the application runs: an archive in a ConfigMap becomes files in an emptyDir."""

import gzip
import os
import shutil
import tarfile
import zlib
from typing import IO

from frameworkbarrier.errors import OutputError, SettingsError

MAX_BYTES = 64 * 1024 * 1024
"""Of all files, with what the archive says of them. They are in a volume of this Pod alone."""
MAX_FILES = 10_000
DONE = ".frameworkcode"
"""Is there when all files are: a barrier that starts again leaves alone what the application has made of them."""


class _Bounded(gzip.GzipFile):
    """Reads no more than may be in it: a mebibyte can become a gibibyte."""

    left = MAX_BYTES

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(size)
        self.left -= len(data)
        if self.left < 0:
            raise SettingsError(f"the code is more than {MAX_BYTES >> 20} MiB when it is unpacked")
        return data


def unpack(archive: str, folder: str) -> int:
    """Write the files of an archive (tar, gzip) into a folder, writable for whoever runs there; return their number.

    Raises:
        SettingsError: the archive is none, is too large, or has something else than files below the folder.
        OutputError: a file could not be written.
    """
    done = os.path.join(folder, DONE)
    if os.path.exists(done):
        return 0
    count = 0
    # The application may have any user.
    umask = os.umask(0)
    try:
        with _Bounded(archive) as stream, tarfile.open(fileobj=stream, mode="r|") as files:
            for info in files:
                count += 1
                content = files.extractfile(info)
                if count > MAX_FILES or content is None or not {"", ".", ".."}.isdisjoint(info.name.split("/")):
                    raise SettingsError(f"FB_CODE_ARCHIVE={archive}: {info.name[:200]!r} is no file that may be there")
                with _created(os.path.join(folder, info.name), 0o777 if info.mode & 0o100 else 0o666) as file:
                    shutil.copyfileobj(content, file)
        _created(done, 0o666).close()
    except (tarfile.TarError, zlib.error, EOFError, gzip.BadGzipFile) as fault:
        raise SettingsError(f"FB_CODE_ARCHIVE={archive}: is no archive: {fault}") from fault
    except OSError as fault:
        raise OutputError(f"cannot unpack {archive} into {folder}: {fault.strerror}") from fault
    finally:
        os.umask(umask)
    return count


def _created(path: str, mode: int) -> IO[bytes]:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    return open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, mode), "wb")
