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


def test_images_that_move_are_pulled_at_each_start_and_loaded_ones_are_not() -> None:
    assert policies(manifests.programs(ImageNames())) == {"IfNotPresent"}
    assert policies(manifests.programs(ImageNames("registry.example", "dev", moves=True))) == {"Always"}


def test_the_repositorys_manifests_name_this_version_and_pull_it_once() -> None:
    text = manifests.INSTALL.read_text()
    assert policies(list(yaml.safe_load_all(text))) == {"IfNotPresent"}
    for name in manifests.PROGRAM_IMAGES:
        assert f"{manifests.PREFIX}/{name}:{metadata.version('frameworkcontroller')}" in text
    assert ":dev" not in text


@pytest.mark.parametrize(
    ("context", "expected"), [("kind-dev", {"IfNotPresent"}), ("minikube", {"IfNotPresent"}), ("prod", {"Always"})]
)
def test_a_cluster_that_pulls_images_asks_the_registry_each_time(context: str, expected: set[str]) -> None:
    target = ContextTarget(context, "registry.example", "dev")
    assert policies(manifests.programs(target.image_names)) == expected


def test_new_images_under_an_old_tag_roll_the_deployments() -> None:
    def templates(revision: str) -> list[object]:
        programs = manifests.programs(ImageNames(), revision)
        return [manifest["spec"]["template"] for manifest in programs if manifest["kind"] == "Deployment"]

    assert templates("a") == templates("a")
    assert all(one != other for one, other in zip(templates("a"), templates("b"), strict=True))


def test_the_demos_namespace_admits_only_restricted_pods() -> None:
    labels = manifests.namespace("demo")["metadata"]["labels"]
    assert labels == {"pod-security.kubernetes.io/enforce": "restricted"}


@pytest.mark.parametrize(
    "content",
    ["kind: Pod", "a: [", "kind: Framework\n---\nkind: Framework", ""],
    ids=["other-kind", "no-yaml", "two", "empty"],
)
def test_the_error_for_a_file_that_is_not_one_framework_names_it(tmp_path: Path, content: str) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(content)
    with pytest.raises(DemoError, match=r"mine\.yaml"):
        manifests.framework(ImageNames(), file)


def test_the_error_for_a_missing_framework_file_names_it(tmp_path: Path) -> None:
    with pytest.raises(DemoError, match=r"absent\.yaml"):
        manifests.framework(ImageNames(), tmp_path / "absent.yaml")


@pytest.mark.parametrize(
    ("context", "command"),
    [
        ("kind-dev", "kind load docker-image --name dev docker.io/frameworkcontroller/controller:dev"),
        ("minikube", "minikube image load docker.io/frameworkcontroller/controller:dev"),
        ("prod", "--image-prefix and --image-tag"),
    ],
)
def test_the_notice_for_a_users_cluster_says_how_to_load_the_images(context: str, command: str) -> None:
    text = how_to_load(context, ImageNames())
    assert command in text
    assert ImageNames().of("tensorflow-example") in text
