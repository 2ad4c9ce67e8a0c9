"""Bills of materials in the format CycloneDX: what is in an image, and what the wheel was tested with.

They are read from the images themselves: from dpkg's list, and from the metadata of the Python distributions.
"""

from __future__ import annotations

import email
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import LicenseExpression
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from frameworkrelease.artefacts import layout
from frameworkrelease.artefacts.release import PROJECT
from localcluster.archive import digest
from localcluster.debian import paragraphs
from localcluster.programs import architecture

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_DPKG: Final = "var/lib/dpkg/status"
_METADATA: Final = ".dist-info/METADATA"
_INSTALLED: Final = "install ok installed"
_DISTRIBUTION: Final = "debian-12"


@dataclass(frozen=True, order=True)
class Part:
    """Something that an image contains.

    Attributes:
        kind: The type of its package URL, `deb` or `pypi`.
        name: Its name.
        version: Its version.
        license: What its metadata say of its licence, "" if nothing.
    """

    kind: str
    name: str
    version: str
    license: str = ""


def parts(image: Path) -> tuple[Part, ...]:
    """Return what the image in an OCI layout contains: packages of Debian and Python distributions."""
    texts = layout.files(image, (_DPKG, _METADATA))
    found = {
        Part("deb", one["Package"], one["Version"])
        for one in paragraphs(texts.get(_DPKG, ""))
        if one.get("Status") == _INSTALLED
    }
    return tuple(sorted(found | {_distribution(text) for path, text in texts.items() if path.endswith(_METADATA)}))


def of_image(reference: str, image: Path, contents: Iterable[Part], epoch: int) -> str:
    """Return the bill of an image.

    Args:
        reference: Its full name, with the tag.
        image: Its OCI layout.
        contents: What it contains.
        epoch: The time of the bill, in Unix seconds.
    """
    name, _, version = reference.rpartition(":")
    program = name.rpartition("/")[2]
    qualifiers = {"repository_url": name, "tag": version, "arch": architecture()}
    root = Component(
        type=ComponentType.CONTAINER,
        name=name,
        version=version,
        purl=PackageURL("oci", None, program, layout.digest(image), qualifiers),
        bom_ref="image",
    )
    own = Part("pypi", PROJECT, version, "MIT")
    return _text(root, [_component(part) for part in sorted({own, *contents})], epoch)


def of_wheel(wheel: Path, version: str, tested_with: Iterable[Part], epoch: int) -> str:
    """Return the bill of the wheel: it contains no libraries, so these are the ones that it was tested with.

    Args:
        wheel: The wheel.
        version: Its version.
        tested_with: The Python distributions of the images.
        epoch: The time of the bill, in Unix seconds.
    """
    root = Component(
        type=ComponentType.APPLICATION,
        name=PROJECT,
        version=version,
        purl=PackageURL("pypi", None, PROJECT, version),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest(wheel).removeprefix("sha256:"))],
        licenses=[LicenseExpression("MIT")],
        bom_ref="wheel",
    )
    return _text(root, [_component(part) for part in sorted(set(tested_with)) if part.kind == "pypi"], epoch)


def _distribution(metadata: str) -> Part:
    head = email.message_from_string(metadata)
    # The names of PyPI in package URLs are normalized.
    name = re.sub(r"[-_.]+", "-", head["Name"]).lower()
    return Part("pypi", name, head["Version"], _license(head["License-Expression"], head["License"]))


def _license(expression: str | None, free: str | None) -> str:
    """Return an SPDX expression, else a name in one line, else nothing: some metadata hold the text of the licence."""
    if expression:
        return expression
    return free if free and "\n" not in free and len(free) < 64 else ""


def _component(part: Part) -> Component:
    if part.kind == "deb":
        qualifiers = {"arch": architecture(), "distro": _DISTRIBUTION}
        purl = PackageURL("deb", "debian", part.name, part.version, qualifiers)
    else:
        purl = PackageURL("pypi", None, part.name, part.version)
    return Component(
        type=ComponentType.LIBRARY,
        name=part.name,
        version=part.version,
        purl=purl,
        licenses=[LicenseFactory().make_from_string(part.license)] if part.license else None,
        bom_ref=purl.to_string(),
    )


def _text(root: Component, components: list[Component], epoch: int) -> str:
    assert root.purl
    # The same contents have the same number.
    number = uuid5(NAMESPACE_URL, " ".join([root.purl.to_string(), *(str(one.bom_ref) for one in components)]))
    bom = Bom(components=components, serial_number=number)
    bom.metadata.timestamp = datetime.fromtimestamp(epoch, UTC)
    bom.metadata.component = root
    bom.register_dependency(root, components)
    return JsonV1Dot6(bom).output_as_string(indent=2) + "\n"
