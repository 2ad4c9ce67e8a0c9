"""The manifests of the repository, with the names of images that a cluster needs.

A file that is not there, cannot be read, or does not hold what it should is a DemoError.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import yaml

from frameworkdemo.cluster import Manifest
from frameworkdemo.errors import DemoError

REPOSITORY = Path(__file__).parents[2]
INSTALL = REPOSITORY / "deploy" / "install.yaml"
FRAMEWORK = REPOSITORY / "examples" / "tensorflow" / "framework.yaml"
PROGRAM_IMAGES = ("controller", "injector", "barrier")
IMAGES = (*PROGRAM_IMAGES, "tensorflow-example")
"""The images that the demo needs."""
PREFIX, TAG = "docker.io/frameworkcontroller", "dev"
"""The prefix of images in the manifests of the repository, and the tag of those that are built from it."""

_NAMED = re.compile(rf"{re.escape(PREFIX)}/({'|'.join(IMAGES)})(?::[\w.-]+)?")
_PULLED_ONCE = re.compile(rf"({_NAMED.pattern}\n +imagePullPolicy: |--barrier-pull-policy=)IfNotPresent")


@dataclass(frozen=True)
class ImageNames:
    """The names by which a cluster finds the project's images: `{prefix}/{name}:{tag}`.

    A tag `moves` if the registry may have another image under it tomorrow, so that each start asks it. Images that were
    loaded into the nodes are in no registry, and those of a version do not change.
    """

    prefix: str = PREFIX
    tag: str = TAG
    moves: bool = False

    def of(self, name: str) -> str:
        """Return the full name of one of the project's images."""
        return f"{self.prefix}/{name}:{self.tag}"

    def in_text(self, text: str) -> str:
        """Return the text of manifests with these names of the images, and with the policy of their pulls."""
        if self.moves:
            text = _PULLED_ONCE.sub(r"\1Always", text)
        return _NAMED.sub(lambda found: self.of(found[1]), text)


def programs(image_names: ImageNames, revision: str = "") -> list[Manifest]:
    """Return the objects of the controller and the injector, in the order in which to apply them.

    Deployments roll out when the revision, a digest of the images' content, changes, although the tag does not.
    """
    objects = _documents(INSTALL, image_names)
    for manifest in deployments(objects):
        metadata = manifest["spec"]["template"]["metadata"]
        metadata.setdefault("annotations", {})["frameworkcontroller.microsoft.com/demo-revision"] = revision
    return objects


def deployments(objects: list[Manifest]) -> list[Manifest]:
    """Return the Deployments among objects."""
    return [manifest for manifest in objects if manifest["kind"] == "Deployment"]


def framework(image_names: ImageNames, file: Path = FRAMEWORK) -> Manifest:
    """Return the manifest of a Framework, by default the example's."""
    found = _documents(file, image_names)
    if [document.get("kind") for document in found] != ["Framework"]:
        raise DemoError(f"{file} does not hold exactly one Framework")
    return found[0]


def namespace(name: str) -> Manifest:
    """Return the manifest of the demo's namespace, which enforces the restricted Pod Security Standard."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def _documents(file: Path, image_names: ImageNames) -> list[Manifest]:
    try:
        return [found for found in yaml.safe_load_all(image_names.in_text(file.read_text())) if found]
    except (OSError, yaml.YAMLError) as error:
        raise DemoError(f"{file} cannot be read: {error}") from error
