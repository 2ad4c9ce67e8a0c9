"""The image with the applications that the example does not bring."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from localcluster import images

if TYPE_CHECKING:
    from localcluster.progress import Progress

NAME: Final = "applications"
_FOLDER = Path(__file__).with_name("images") / NAME


def build(progress: Progress | None = None) -> Path:
    """The archive of the image, built unless the cache has it."""
    return images.build(
        NAME,
        dockerfile=_FOLDER / "Dockerfile",
        context=_FOLDER,
        tag=images.reference(NAME),
        progress=progress,
    )
