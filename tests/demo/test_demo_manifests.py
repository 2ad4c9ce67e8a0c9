"""The manifests that the demo applies: the repository's, with the names of images that a cluster needs."""

import re
from importlib import metadata
from pathlib import Path

import pytest
import yaml

from frameworkdemo import manifests
from frameworkdemo.errors import DemoError
from frameworkdemo.manifests import ImageNames
from frameworkdemo.target import ContextTarget, how_to_load
from tests.support.rows import each


def test_images_of_another_registry_are_named_everywhere_including_arguments() -> None:
    elsewhere = ImageNames("registry.example/team", "v7")
    text = str([*manifests.programs(elsewhere), manifests.framework(elsewhere)])
    assert manifests.PREFIX not in text
    for name in manifests.IMAGES:
        assert f"registry.example/team/{name}:v7" in text


def policies(text: str) -> set[str]:
    """Return all policies of pulls in manifests."""
    return set(re.findall(r"(?:imagePullPolicy: |--barrier-pull-policy=)(\w+)", text))


def test_the_repositorys_manifests_name_this_version_and_pull_it_once() -> None:
    text = manifests.INSTALL.read_text()
    assert policies(text) == {"IfNotPresent"}
    for name in manifests.PROGRAM_IMAGES:
        assert f"{manifests.PREFIX}/{name}:{metadata.version('frameworkcontroller')}" in text
    assert ":dev" not in text


def test_new_images_under_an_old_tag_roll_the_deployments() -> None:
    one, same, other = (manifests.deployments(manifests.programs(ImageNames(), text)) for text in ("a", "a", "b"))
    assert one == same
    assert all(old["spec"]["template"] != new["spec"]["template"] for old, new in zip(one, other, strict=True))


def test_the_demos_namespace_admits_only_restricted_pods() -> None:
    assert manifests.namespace("demo")["metadata"]["labels"] == {"pod-security.kubernetes.io/enforce": "restricted"}


def test_the_error_for_a_file_that_is_absent_or_not_one_framework_names_it(tmp_path: Path) -> None:
    with pytest.raises(DemoError, match=r"absent\.yaml"):
        manifests.framework(ImageNames(), tmp_path / "absent.yaml")
    for content in ("kind: Pod", "a: [", "kind: Framework\n---\nkind: Framework", ""):
        (tmp_path / "mine.yaml").write_text(content)
        with pytest.raises(DemoError, match=r"mine\.yaml"):
            manifests.framework(ImageNames(), tmp_path / "mine.yaml")


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
    assert policies(yaml.safe_dump_all(manifests.programs(target.image_names))) == {policy}
    text = how_to_load(context, target.image_names)
    assert how in text
    assert ImageNames().of("tensorflow-example") in text
