"""`python -m frameworkdemo.release`: print the manifests of a release, which name the version of each image.

The manifests of the repository name the tag `dev`, which moves, and pull it at each start. Those of a release name a
tag that stays, so that a node pulls an image once and a Pod of tomorrow gets the barrier of today.
"""

from __future__ import annotations

import argparse
import sys
from importlib import metadata
from typing import TYPE_CHECKING

from frameworkdemo.manifests import PREFIX, PROGRAMS, REPOSITORY, ImageNames, renamed

if TYPE_CHECKING:
    from collections.abc import Sequence

_MOVING = ("dev", "latest", "")


def release(image_names: ImageNames) -> str:
    """Return the manifests of the controller and the injector as one text, with the comments."""
    files = [file for folder in PROGRAMS for file in sorted((REPOSITORY / folder).glob("*.yaml"))]
    texts = [renamed(file.read_text(), image_names) for file in files]
    return "---\n".join(text.replace("imagePullPolicy: Always", "imagePullPolicy: IfNotPresent") for text in texts)


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
