"""`python -m frameworkdemo.release`: print the plain manifests with images of another registry or version.

They name a tag that stays, so that a node pulls an image once and a Pod of tomorrow gets the barrier of today.
"""

from __future__ import annotations

import argparse
import sys
from importlib import metadata
from typing import TYPE_CHECKING

from frameworkdemo.manifests import INSTALL, PREFIX, ImageNames, renamed

if TYPE_CHECKING:
    from collections.abc import Sequence

_MOVING = ("dev", "latest", "")


def release(image_names: ImageNames) -> str:
    """Return the manifests of the controller and the injector as one text, with the comments."""
    return renamed(INSTALL.read_text(), image_names)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the manifests and return 0."""
    parser = argparse.ArgumentParser(
        prog="frameworkdemo.release", description="Print the manifests with the images of one version."
    )
    parser.add_argument("--image-prefix", default=PREFIX, help="registry and path; default: %(default)s")
    parser.add_argument(
        "--image-tag", default=metadata.version("frameworkcontroller"), help="default: this version, %(default)s"
    )
    options = parser.parse_args(argv)
    if options.image_tag in _MOVING:
        parser.error(f"--image-tag={options.image_tag}: a release names a tag that does not move")
    sys.stdout.write(release(ImageNames(options.image_prefix.rstrip("/"), options.image_tag)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
