"""The manifests of the repository, as they are, and the few things that a cluster may need changed in them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from demo.errors import DemoError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from demo.cluster import Manifest

REPOSITORY = Path(__file__).parents[2]
PROGRAMS = ("controller/manifests", "injector/manifests")
FRAMEWORK = REPOSITORY / "examples" / "tensorflow" / "framework.yaml"
IMAGES = ("controller", "injector", "barrier", "tensorflow-example")
PREFIX, TAG = "docker.io/frameworkcontroller", "dev"
"""How the manifests of the repository name images."""

_FIRST = ("Namespace", "CustomResourceDefinition", "ServiceAccount")
_LAST = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


@dataclass(frozen=True)
class Naming:
    """Where a cluster finds the project's images: `{prefix}/{name}:{tag}`."""

    prefix: str = PREFIX
    tag: str = TAG

    def of(self, name: str) -> str:
        """Return the full name of one of the project's images."""
        return f"{self.prefix}/{name}:{self.tag}"


def programs(naming: Naming, revision: str = "") -> list[Manifest]:
    """Return the objects of the controller and the injector, in an order in which they can be applied.

    Args:
        naming: The names of images.
        revision: What the images hold; a Deployment is rolled when it changes, as the tag stays the same.

    Raises:
        DemoError: There are no manifests.
    """
    files = [file for folder in PROGRAMS for file in sorted((REPOSITORY / folder).glob("*.yaml"))]
    objects = [_renamed(document, naming) for file in files for document in _documents(file)]
    if not objects:
        raise DemoError(f"there is no manifest in {' and '.join(PROGRAMS)}")
    for manifest in objects:
        if revision and manifest["kind"] == "Deployment":
            metadata = manifest["spec"]["template"].setdefault("metadata", {})
            metadata.setdefault("annotations", {})["frameworkcontroller.microsoft.com/demo-revision"] = revision
    return in_order(objects)


def framework(naming: Naming, file: Path = FRAMEWORK) -> Manifest:
    """Return a Framework, the example's by default.

    Args:
        naming: The names of images.
        file: Its manifest.

    Raises:
        DemoError: The file cannot be read, or does not hold exactly one Framework.
    """
    documents = _documents(file)
    if [document.get("kind") for document in documents] != ["Framework"]:
        raise DemoError(f"{file} does not hold exactly one Framework")
    renamed: Manifest = _renamed(documents[0], naming)
    return renamed


def namespace(name: str) -> Manifest:
    """Return the demo's namespace; it admits only Pods that pass the restricted Pod Security Standard."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def in_order(objects: Iterable[Manifest]) -> list[Manifest]:
    """Return objects so that what others need comes first, and webhooks, which need all others, last."""

    def place(manifest: Manifest) -> int:
        kind = manifest["kind"]
        return _FIRST.index(kind) - len(_FIRST) if kind in _FIRST else int(kind in _LAST)

    return sorted(objects, key=place)


def _documents(file: Path) -> list[Manifest]:
    try:
        return [document for document in yaml.safe_load_all(file.read_text()) if document]
    except (OSError, yaml.YAMLError) as error:
        raise DemoError(f"{file} cannot be read: {error}") from error


def _renamed(value: Any, naming: Naming) -> Any:
    """Return a manifest with the names of the project's images, and no other string, changed."""
    match value:
        case dict():
            return {key: _renamed(item, naming) for key, item in value.items()}
        case list():
            return [_renamed(item, naming) for item in value]
        case str():
            for name in IMAGES:
                value = value.replace(Naming().of(name), naming.of(name))
            return value
        case _:
            return value
