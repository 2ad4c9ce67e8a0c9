"""The names of artefacts, and the names by which registries know them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

PROJECT: Final = "frameworkcontroller"
PREFIX: Final = f"docker.io/{PROJECT}"
"""Where the images and the chart are, unless a release says otherwise."""
PROGRAMS: Final = ("barrier", "controller", "injector")
MANIFESTS: Final = "install.yaml"
HELLO: Final = "hello.yaml"
IMAGES: Final = "images.yaml"


@dataclass(frozen=True)
class Names:
    """The names of one version.

    Attributes:
        version: The version.
    """

    version: str

    @property
    def wheel(self) -> str:
        """The wheel of the three programs."""
        return f"{PROJECT}-{self.version}-py3-none-any.whl"

    @property
    def sdist(self) -> str:
        """The source distribution."""
        return f"{PROJECT}-{self.version}.tar.gz"

    @property
    def chart(self) -> str:
        """The archive of the chart, as helm names it."""
        return f"{PROJECT}-{self.version}.tgz"

    def image(self, program: str) -> str:
        """Return the name of the archive of an image."""
        return f"{program}-{self.version}.oci.tar"

    def reference(self, prefix: str, program: str) -> str:
        """Return the full name of an image in a registry."""
        return f"{prefix}/{program}:{self.version}"

    @property
    def all(self) -> frozenset[str]:
        """All files of a release but the checksums and their signature."""
        images = [self.image(program) for program in PROGRAMS]
        described = [self.wheel, *images]
        plain = (self.wheel, self.sdist, self.chart, MANIFESTS, HELLO, IMAGES)
        return frozenset({*plain, *images, *(bill_of(file) for file in described)})


def bill_of(file: str) -> str:
    """Return the name of the bill of materials of an artefact."""
    return f"{file}.cdx.json"
