"""The files of a release, and the names by which registries know what is in it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

PROJECT: Final = "frameworkcontroller"
PREFIX: Final = f"docker.io/{PROJECT}"
"""Where the images and the chart are, unless a release says otherwise."""
PROGRAMS: Final = ("barrier", "controller", "history", "injector")
MANIFESTS: Final = "install.yaml"
HELLO: Final = "hello.yaml"
IMAGES: Final = "images.yaml"
_IMAGES_HEAD: Final = "# The images of a release, each by its digest: `helm install --values images.yaml`.\n"


@dataclass(frozen=True)
class Release:
    """The files of a release."""

    folder: Path
    version: str

    @property
    def wheel(self) -> Path:
        """The wheel of all programs."""
        return self.folder / f"{PROJECT}-{self.version}-py3-none-any.whl"

    @property
    def chart(self) -> Path:
        """The archive of the chart, as helm names it."""
        return self.folder / f"{PROJECT}-{self.version}.tgz"

    def image(self, program: str) -> Path:
        """Return the archive of an image."""
        return self.folder / f"{program}-{self.version}.oci.tar"

    @property
    def names(self) -> frozenset[str]:
        """The names of all files but the checksums and their signature."""
        described = [self.wheel, *map(self.image, PROGRAMS)]
        files = [*described, *map(bill_of, described), self.chart, self.folder / f"{PROJECT}-{self.version}.tar.gz"]
        return frozenset({*(file.name for file in files), MANIFESTS, HELLO, IMAGES})

    @property
    def prefix(self) -> str:
        """Where it says that its images are: a registry and a path, such as `docker.io/frameworkcontroller`."""
        path = str(self._images[PROGRAMS[0]]["image"]["repository"]).removesuffix(PROGRAMS[0])
        return f"{self._images['image']['registry']}/{path}".rstrip("/")

    @property
    def digests(self) -> dict[str, str]:
        """The digests of its images by program."""
        return {program: str(self._images[program]["image"]["digest"]) for program in PROGRAMS}

    @property
    def _images(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = yaml.safe_load((self.folder / IMAGES).read_text())
        return found


def bill_of(file: Path) -> Path:
    """Return the bill of materials of an artefact."""
    return file.with_name(f"{file.name}.cdx.json")


def images(version: str, prefix: str, digests: Mapping[str, str]) -> str:
    """Return the values of a version's chart by which it installs images of a registry and path by their digests."""
    registry, _, path = prefix.partition("/")
    by_program = {
        program: {"image": {"repository": f"{path}/{program}".lstrip("/"), "digest": digest}}
        for program, digest in digests.items()
    }
    return _IMAGES_HEAD + yaml.safe_dump(
        {"image": {"registry": registry, "digestsOf": version}, **by_program}, sort_keys=False
    )


def moved(prefix: str, registry_address: str) -> str:
    """Return a registry and a path with another registry."""
    return "/".join([registry_address, *prefix.split("/")[1:]])
