"""Bills of materials in the format CycloneDX: what is in an image, and what the wheel was tested with.

They are read from the images themselves: from dpkg's list, and from the metadata of the Python distributions.
"""

import email
import json
import re
import tarfile
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from frameworkrelease.release import PROJECT
from localcluster.images.archive import digest as digest_of
from localcluster.images.debian import paragraphs
from localcluster.programs.catalogue import architecture

_DPKG: Final = "var/lib/dpkg/status"
_METADATA: Final = ".dist-info/METADATA"
_INSTALLED: Final = "install ok installed"
_DISTRIBUTION: Final = "debian-12"


def contents(image: Path, digest: str) -> list[Component]:
    """Return what the manifest of an OCI layout contains: packages of Debian and Python distributions."""
    texts = _files(image, digest)
    found = []
    for one in paragraphs(texts.get(_DPKG, "")):
        if one.get("Status") == _INSTALLED:
            qualifiers = {"arch": architecture(), "distro": _DISTRIBUTION}
            found.append(_component(PackageURL("deb", "debian", one["Package"], one["Version"], qualifiers)))
    for head in (email.message_from_string(text) for path, text in texts.items() if path.endswith(_METADATA)):
        # The names of PyPI in package URLs are normalized.
        name = re.sub(r"[-_.]+", "-", head["Name"]).lower()
        license_name = _license(head["License-Expression"], head["License"])
        found.append(_component(PackageURL("pypi", None, name, head["Version"]), license_name))
    return found


def of_image(reference: str, digest: str, parts: Iterable[Component], epoch: int) -> str:
    """Return the bill of an image, by its full name with the tag; `epoch` is the time of the bill, in Unix seconds."""
    name, _, version = reference.rpartition(":")
    qualifiers = {"repository_url": name, "tag": version, "arch": architecture()}
    purl = PackageURL("oci", None, name.rpartition("/")[2], digest, qualifiers)
    root = Component(type=ComponentType.CONTAINER, name=name, version=version, purl=purl, bom_ref="image")
    return _bill(root, [_component(PackageURL("pypi", None, PROJECT, version), "MIT"), *parts], epoch)


def of_wheel(wheel: Path, version: str, tested_with: Iterable[Component], epoch: int) -> str:
    """Return the bill of the wheel: it contains no libraries, so these are the ones that it was tested with.

    They are those of the images. `epoch` is the time of the bill, in Unix seconds.
    """
    root = _component(PackageURL("pypi", None, PROJECT, version), "MIT")
    root.type, root.bom_ref.value = ComponentType.APPLICATION, "wheel"
    root.hashes = [HashType(alg=HashAlgorithm.SHA_256, content=digest_of(wheel).removeprefix("sha256:"))]
    return _bill(root, (one for one in tested_with if one.purl and one.purl.type == "pypi"), epoch)


def _license(expression: str | None, free: str | None) -> str:
    """Return an SPDX expression, else a name in one line, else nothing: some metadata hold the text of the licence."""
    if expression:
        return expression
    return free if free and "\n" not in free and len(free) < 64 else ""


def _component(purl: PackageURL, license_name: str = "") -> Component:
    return Component(
        type=ComponentType.LIBRARY,
        name=purl.name,
        version=purl.version,
        purl=purl,
        licenses=[LicenseFactory().make_from_string(license_name)] if license_name else None,
        bom_ref=purl.to_string(),
    )


def _bill(root: Component, parts: Iterable[Component], epoch: int) -> str:
    components = {str(one.purl): one for one in parts}
    # The same contents have the same number.
    bom = Bom(
        components=components.values(),
        serial_number=uuid5(NAMESPACE_URL, " ".join([str(root.purl), *sorted(components)])),
    )
    bom.metadata.timestamp = datetime.fromtimestamp(epoch, UTC)
    bom.metadata.component = root
    bom.register_dependency(root, components.values())
    return JsonV1Dot6(bom).output_as_string(indent=2) + "\n"


def _files(image: Path, digest: str) -> dict[str, str]:
    """Return the texts of dpkg's list and of metadata by path, that of the upper layer where several have one."""

    def blob(name: str) -> Path:
        return image / "blobs" / name.replace(":", "/")

    def texts(layer: Path) -> Iterator[tuple[str, str]]:
        with tarfile.open(layer) as tar:
            for member in tar:
                if member.isfile() and member.name.endswith((_DPKG, _METADATA)):
                    content = tar.extractfile(member)
                    assert content
                    yield member.name.removeprefix("./"), content.read().decode(errors="replace")

    manifest = json.loads(blob(digest).read_text())
    return {path: text for layer in manifest["layers"] for path, text in texts(blob(layer["digest"]))}
