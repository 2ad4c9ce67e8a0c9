"""What the demo sends: the repository's manifests, changed only where a cluster needs it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from demo import manifests
from demo.errors import DemoError
from demo.manifests import Naming
from demo.target import how_to_load

if TYPE_CHECKING:
    from pathlib import Path

ELSEWHERE = Naming("registry.example/team", "v7")


def test_the_programs_are_sent_as_they_are_in_the_repository() -> None:
    assert manifests.programs(Naming()) == manifests.programs(Naming(manifests.PREFIX, manifests.TAG))
    kinds = [manifest["kind"] for manifest in manifests.programs(Naming())]
    assert {"CustomResourceDefinition", "Deployment", "MutatingWebhookConfiguration"} <= set(kinds)


def test_what_others_need_comes_first_and_webhooks_last() -> None:
    kinds = ["Deployment", "MutatingWebhookConfiguration", "ServiceAccount", "CustomResourceDefinition", "Namespace"]
    ordered = manifests.in_order([{"kind": kind} for kind in kinds])
    assert [manifest["kind"] for manifest in ordered] == [
        "Namespace", "CustomResourceDefinition", "ServiceAccount", "Deployment", "MutatingWebhookConfiguration",
    ]  # fmt: skip


def test_images_of_another_registry_are_named_everywhere_also_in_arguments() -> None:
    text = str([*manifests.programs(ELSEWHERE), manifests.framework(ELSEWHERE)])
    assert manifests.PREFIX not in text
    for name in manifests.IMAGES:
        assert f"registry.example/team/{name}:v7" in text


def test_new_images_under_an_old_tag_roll_the_deployments() -> None:
    def templates(revision: str) -> list[object]:
        programs = manifests.programs(Naming(), revision)
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
def test_a_file_that_is_not_one_framework_is_refused_by_name(tmp_path: Path, content: str) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(content)
    with pytest.raises(DemoError, match=r"mine\.yaml"):
        manifests.framework(Naming(), file)


def test_a_framework_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DemoError, match=r"absent\.yaml"):
        manifests.framework(Naming(), tmp_path / "absent.yaml")


@pytest.mark.parametrize(
    ("context", "command"),
    [
        ("kind-dev", "kind load docker-image --name dev docker.io/frameworkcontroller/controller:dev"),
        ("minikube", "minikube image load docker.io/frameworkcontroller/controller:dev"),
        ("prod", "--image-prefix and --image-tag"),
    ],
)
def test_a_users_cluster_is_told_how_it_gets_the_images(context: str, command: str) -> None:
    text = how_to_load(context, Naming())
    assert command in text
    assert Naming().of("tensorflow-example") in text
