"""The files of a job as one archive: it travels in a ConfigMap, and the barrier puts it where the application runs."""

import base64
import gzip
import io
import secrets
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from frameworkclient.errors import ManifestError
from frameworkcontroller.api import names

MAX_BYTES: Final = 1024 * 1024
"""Compressed: as much as the API server lets be in a ConfigMap."""
MAX_UNPACKED: Final = 60 * 1024 * 1024
MAX_FILES: Final = 10_000
"""The barrier unpacks no more."""
_SHOWN: Final = 5


@dataclass(frozen=True)
class Code:
    """Files that travel with a Framework; `read_code` reads them.

    Attributes:
        sizes: Their bytes by their paths below the folder in which the application starts.
        archive: All of them, compressed.
        left_out: What stays at home though it is in the folder: secrets, links to folders, and other than files.
        name: Of the ConfigMap, unlike that of any other.
    """

    sizes: Mapping[str, int]
    archive: bytes = field(repr=False)
    left_out: tuple[str, ...] = ()
    name: str = field(default_factory=lambda: f"code-{secrets.token_hex(5)}", compare=False)

    @classmethod
    def packed(cls, files: Mapping[str, tuple[bytes, bool]], left_out: tuple[str, ...] = ()) -> Self:
        """Return the code of files, by their paths: what is in each, and whether it can be executed.

        Raises:
            ManifestError: It is too much for a ConfigMap.
        """
        sizes = {path: len(data) for path, (data, _) in files.items()}
        buffer = io.BytesIO()
        # The same files make the same bytes.
        with (
            gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0) as compressed,
            tarfile.open(fileobj=compressed, mode="w") as archive,
        ):
            for path, (data, executable) in files.items():
                info = tarfile.TarInfo(path)
                info.size, info.mode = len(data), 0o755 if executable else 0o644
                archive.addfile(info, io.BytesIO(data))
        if buffer.tell() > MAX_BYTES:
            raise too_much(sizes, f"{_amount(buffer.tell())} compressed")
        return cls(sizes, buffer.getvalue(), left_out)

    def config_map(self, owner: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the ConfigMap; `owner` is an entry of `ownerReferences`."""
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": self.name} | ({"ownerReferences": [dict(owner)]} if owner else {}),
            "binaryData": {names.CODE_KEY: base64.b64encode(self.archive).decode()},
        }

    def __str__(self) -> str:
        out = f"; left out: {', '.join(self.left_out)}" if self.left_out else ""
        files = f"{len(self.sizes)} file" + ("" if len(self.sizes) == 1 else "s")
        return f"{files}, {_amount(len(self.archive))} compressed, in ConfigMap {self.name}{out}"


def check_sizes(sizes: Mapping[str, int]) -> None:
    """Return if files may travel, as far as their bytes by their paths say, before they are read.

    Raises:
        ManifestError: They are too many or too large.
    """
    if len(sizes) > MAX_FILES or sum(sizes.values()) > MAX_UNPACKED:
        raise too_much(sizes, f"{len(sizes)} files of {_amount(sum(sizes.values()))}")


def too_much(sizes: Mapping[str, int], what: str) -> ManifestError:
    """Return the error for code that cannot travel, with its largest files and the ways out."""
    largest = sorted(sizes, key=lambda path: -sizes[path])[:_SHOWN]
    shown = ", ".join(f"{path} ({_amount(sizes[path])})" for path in largest)
    return ManifestError(
        f"the code: {what} is more than fits into a ConfigMap: {_amount(MAX_BYTES)} compressed, and {MAX_FILES} files "
        f"of {_amount(MAX_UNPACKED)} before; the largest are {shown}: name in .gitignore what the job does not need, "
        "mount data by a volume, or put the code into the image"
    )


def _amount(number: int) -> str:
    return f"{number / 1024:.1f} KiB" if number < MAX_BYTES else f"{number / MAX_BYTES:.1f} MiB"
