"""The base and the overlays of kustomize, as the real kubectl builds them."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest
import yaml

from frameworkrelease import chart, plain
from testkit.frameworks import manifests_of
from tests.release.objects import by_identity, identities, kinds, only, pod_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.release.conftest import Manifests

    Render = Callable[..., Manifests]

pytestmark = pytest.mark.chart
OVERLAYS = chart.REPOSITORY / "kustomize"


def built(folder: Path) -> Manifests:
    """What `kubectl apply -k` applies."""
    command = [chart.program("kubectl"), "kustomize", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [one for one in yaml.safe_load_all(done.stdout) if one]


def test_the_base_of_kustomize_is_the_plain_manifests() -> None:
    assert by_identity(built(plain.FILE.parent)) == by_identity(list(yaml.safe_load_all(plain.FILE.read_text())))


def test_the_overlay_for_one_namespace_is_the_chart_for_one_namespace(render: Render) -> None:
    overlay = built(OVERLAYS / "namespaced")
    expected = render({"watchNamespaces": ["default"], "namespace": {"create": True}})
    assert identities(overlay) == identities(expected)
    for identity, wanted in by_identity(expected).items():
        found = by_identity(overlay)[identity]
        if identity == ("Deployment", chart.NAMESPACE, "frameworkcontroller"):
            for one in (found, wanted):
                one["spec"]["template"]["spec"]["containers"][0]["args"].sort()
        assert {**found, "metadata": None} == {**wanted, "metadata": None}


def test_the_overlay_for_high_availability_survives_the_loss_of_a_node() -> None:
    overlay = built(OVERLAYS / "high-availability")
    for name in ("frameworkcontroller", "frameworkinjector"):
        assert only(overlay, "Deployment", name)["spec"]["replicas"] == 3
        assert only(overlay, "PodDisruptionBudget", name)["spec"]["minAvailable"] == 2
        (constraint,) = pod_of(overlay, name)["topologySpreadConstraints"]
        assert constraint["whenUnsatisfiable"] == "DoNotSchedule"


def test_the_programs_of_the_plain_manifests_can_be_told_apart() -> None:
    for program in ("frameworkcontroller", "frameworkinjector"):
        assert {"Deployment", "ServiceAccount", "NetworkPolicy", "Namespace"} <= kinds(manifests_of(program))
