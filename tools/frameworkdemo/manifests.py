"""The manifests of the repository, with the names of images that a cluster needs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from frameworkdemo.errors import DemoError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from frameworkdemo.cluster import Manifest

REPOSITORY = Path(__file__).parents[2]
INSTALL = REPOSITORY / "deploy" / "install.yaml"
FRAMEWORK = REPOSITORY / "examples" / "tensorflow" / "framework.yaml"
PROGRAM_IMAGES = ("controller", "injector", "barrier")
IMAGES = (*PROGRAM_IMAGES, "tensorflow-example")
"""The images that the demo needs."""
PREFIX, TAG = "docker.io/frameworkcontroller", "dev"
"""The prefix of images in the manifests of the repository, and the tag of those that are built from it."""

_FIRST = ("Namespace", "CustomResourceDefinition", "ServiceAccount")
_LAST = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
_NAMED = re.compile(rf"{re.escape(PREFIX)}/({'|'.join(IMAGES)})(?::[\w.-]+)?")


@dataclass(frozen=True)
class ImageNames:
    """The names by which a cluster finds the project's images: `{prefix}/{name}:{tag}`.

    Attributes:
        prefix: The registry and the path.
        tag: The tag.
        moves: Whether the registry may have another image under the tag tomorrow, so that each start asks it. Images
            that were loaded into the nodes are in no registry, and those of a version do not change.
    """

    prefix: str = PREFIX
    tag: str = TAG
    moves: bool = False

    def of(self, name: str) -> str:
        """Return the full name of one of the project's images."""
        return f"{self.prefix}/{name}:{self.tag}"


def programs(image_names: ImageNames, revision: str = "") -> list[Manifest]:
    """Return the objects of the controller and the injector, in the order in which to apply them.

    Args:
        image_names: The names of the images.
        revision: A digest of the images' content; Deployments roll out when it changes, although the tag does not.

    Raises:
        DemoError: There are no manifests: the checkout is not complete.
    """
    objects = [_renamed(document, image_names) for document in documents(INSTALL)]
    for manifest in objects:
        if revision and manifest["kind"] == "Deployment":
            metadata = manifest["spec"]["template"].setdefault("metadata", {})
            metadata.setdefault("annotations", {})["frameworkcontroller.microsoft.com/demo-revision"] = revision
    return in_order(objects)


def framework(image_names: ImageNames, file: Path = FRAMEWORK) -> Manifest:
    """Return the manifest of a Framework, by default the example's.

    Args:
        image_names: The names of the images.
        file: The file of the manifest.

    Raises:
        DemoError: The file cannot be read, or does not hold exactly one Framework.
    """
    found = documents(file)
    if [document.get("kind") for document in found] != ["Framework"]:
        raise DemoError(f"{file} does not hold exactly one Framework")
    renamed: Manifest = _renamed(found[0], image_names)
    return renamed


def namespace(name: str) -> Manifest:
    """Return the manifest of the demo's namespace, which enforces the restricted Pod Security Standard."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def shown(file: Path) -> str:
    """Return the name of a file as a user would type it."""
    return str(file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file)


def in_order(objects: Iterable[Manifest]) -> list[Manifest]:
    """Return objects in the order of their needs: namespaces, CRDs and service accounts first, webhooks last."""

    def place(manifest: Manifest) -> int:
        kind = manifest["kind"]
        return _FIRST.index(kind) - len(_FIRST) if kind in _FIRST else int(kind in _LAST)

    return sorted(objects, key=place)


def renamed(text: str, image_names: ImageNames) -> str:
    """Return a text of the manifests with other names of the images, and with the policy of their pulls."""
    text = _NAMED.sub(lambda found: image_names.of(found[1]), text)
    if image_names.moves:
        text = text.replace("--barrier-pull-policy=IfNotPresent", "--barrier-pull-policy=Always")
    return text


def documents(file: Path) -> list[Manifest]:
    """Return the objects of a file.

    Raises:
        DemoError: It cannot be read, or is not YAML.
    """
    try:
        return [document for document in yaml.safe_load_all(file.read_text()) if document]
    except (OSError, yaml.YAMLError) as error:
        raise DemoError(f"{file} cannot be read: {error}") from error


def _renamed(value: Any, image_names: ImageNames) -> Any:
    """Return a manifest in which the names of the project's images are replaced."""
    match value:
        case dict():
            own = {key: _renamed(item, image_names) for key, item in value.items()}
            if image_names.moves and "imagePullPolicy" in own and _NAMED.fullmatch(value["image"]):
                own["imagePullPolicy"] = "Always"
            return own
        case list():
            return [_renamed(item, image_names) for item in value]
        case str():
            return renamed(value, image_names)
        case _:
            return value
