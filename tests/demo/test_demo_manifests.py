"""The manifests that the demo applies: the repository's, with the names of images that a cluster needs."""

from __future__ import annotations

from importlib import metadata
from typing import TYPE_CHECKING

import pytest
import yaml

from frameworkdemo import manifests
from frameworkdemo.errors import DemoError
from frameworkdemo.manifests import ImageNames
from frameworkdemo.target import ContextTarget, how_to_load
from tests.support.rows import each

if TYPE_CHECKING:
    from pathlib import Path

ELSEWHERE = ImageNames("registry.example/team", "v7")


def test_the_programs_are_applied_as_they_are_in_the_repository() -> None:
    assert manifests.programs(ImageNames()) == manifests.programs(ImageNames(manifests.PREFIX, manifests.TAG))
    kinds = [manifest["kind"] for manifest in manifests.programs(ImageNames())]
    assert {"CustomResourceDefinition", "Deployment", "MutatingWebhookConfiguration"} <= set(kinds)


def test_images_of_another_registry_are_named_everywhere_including_arguments() -> None:
    text = str([*manifests.programs(ELSEWHERE), manifests.framework(ELSEWHERE)])
    assert manifests.PREFIX not in text
    for name in manifests.IMAGES:
        assert f"registry.example/team/{name}:v7" in text


def policies(value: object) -> set[str]:
    """Return all policies of pulls in manifests."""
    match value:
        case dict():
            own = {value["imagePullPolicy"]} if "imagePullPolicy" in value else set()
            return own.union(*map(policies, value.values()))
        case list():
            return set().union(*map(policies, value))
        case str() if value.startswith("--barrier-pull-policy="):
            return {value.partition("=")[2]}
    return set()


def test_the_repositorys_manifests_name_this_version_and_pull_it_once() -> None:
    text = manifests.INSTALL.read_text()
    assert policies(list(yaml.safe_load_all(text))) == {"IfNotPresent"}
    for name in manifests.PROGRAM_IMAGES:
        assert f"{manifests.PREFIX}/{name}:{metadata.version('frameworkcontroller')}" in text
    assert ":dev" not in text


def test_new_images_under_an_old_tag_roll_the_deployments() -> None:
    def templates(revision: str) -> list[object]:
        programs = manifests.programs(ImageNames(), revision)
        return [manifest["spec"]["template"] for manifest in programs if manifest["kind"] == "Deployment"]

    assert templates("a") == templates("a")
    assert all(one != other for one, other in zip(templates("a"), templates("b"), strict=True))


def test_the_demos_namespace_admits_only_restricted_pods() -> None:
    labels = manifests.namespace("demo")["metadata"]["labels"]
    assert labels == {"pod-security.kubernetes.io/enforce": "restricted"}


@each("content", ["kind: Pod", "a: [", "kind: Framework\n---\nkind: Framework", "", None])
def test_the_error_for_a_file_that_is_not_one_framework_or_is_absent_names_it(
    tmp_path: Path, content: str | None
) -> None:
    file = tmp_path / "mine.yaml"
    file.unlink(missing_ok=True)
    if content is not None:
        file.write_text(content)
    with pytest.raises(DemoError, match=r"mine\.yaml"):
        manifests.framework(ImageNames(), file)


@each(
    "context, policy, how",
    [
        ("kind-dev", "IfNotPresent", "kind load docker-image --name dev docker.io/frameworkcontroller/controller:dev"),
        ("minikube", "IfNotPresent", "minikube image load docker.io/frameworkcontroller/controller:dev"),
        ("prod", "Always", "--image-prefix and --image-tag"),
    ],
)
def test_images_are_loaded_into_local_clusters_and_others_ask_a_registry_each_time(
    context: str, policy: str, how: str
) -> None:
    target = ContextTarget(context, manifests.PREFIX, manifests.TAG)
    assert policies(manifests.programs(target.image_names)) == {policy}
    text = how_to_load(context, target.image_names)
    assert how in text
    assert ImageNames().of("tensorflow-example") in text
