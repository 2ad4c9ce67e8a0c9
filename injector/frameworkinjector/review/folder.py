"""Checks the folder of the barrier's files: it must not meet what a container has at the same path.

The folder is a volume of its own, mounted read only. A volume of the user above it would get a directory for the mount
point, or would keep the container from starting if it is read only; the mount point of a volume below it cannot be
made. `plan` calls both functions. Source: docs/reference/injector.md, section 1.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Final

from frameworkbarrier.settings import SETTINGS
from frameworkinjector import names
from frameworkinjector.review.reasons import Reason, RefusalError, shown

if TYPE_CHECKING:
    from frameworkinjector.review.pod import Container

ANNOTATION: Final = f"{names.PREFIX}{SETTINGS['output_dir'].annotation}"
# Where the barrier's image, any image, the kernel or the kubelet has files. `/var` and `/` are above some of them.
RESERVED: Final = (
    "/app", "/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/proc", "/root", "/run", "/sbin", "/sys",
    "/usr", "/var/run",
)  # fmt: skip


def refuse_reserved(path: str) -> None:
    """Refuse a folder that would hide files which the barrier or the application needs.

    Raises:
        RefusalError: The folder is one of these, or above or below one.
    """
    for reserved in RESERVED:
        if _overlap(path, reserved):
            expected = f"a path outside of {', '.join(RESERVED)}"
            raise RefusalError(Reason.BAD_VALUE, annotation=ANNOTATION, value=shown(path), expected=expected)


def refuse_overlap(one: Container, path: str) -> None:
    """Refuse a container that has a mount of its own at, above or below the folder.

    Raises:
        RefusalError: It has one.
    """
    for mount in one.volume_mounts or ():
        # The kubelet takes a relative path from the root.
        own = "/" + posixpath.normpath("/" + mount.mount_path).lstrip("/")
        if _overlap(path, own):
            raise RefusalError(
                Reason.FOLDER_OVERLAPS, container=shown(one.name), path=shown(mount.mount_path), folder=path
            )


def _overlap(one: str, other: str) -> bool:
    return f"{one}/".startswith(f"{other.rstrip('/')}/") or f"{other}/".startswith(f"{one}/")
