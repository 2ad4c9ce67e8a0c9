"""Every example ends as it should, on a real node, by the code of `make example`.

Those of training are in `test_training`, so that two workers of pytest share the examples.
"""

from pathlib import Path

import pytest
import yaml

from frameworkcontroller.api import names
from frameworkdemo.cluster import local_cluster
from frameworkdemo.examples.run import run
from localcluster import Cluster
from testkit.frameworks import role
from tests.e2e.examples import run as examples
from tests.e2e.pods import pod

pytestmark = [pytest.mark.node, pytest.mark.turns("drills")]


@pytest.mark.parametrize("name", examples.others())
def test_the_example_ends_as_expected(name: str, cluster: Cluster, installed: None) -> None:
    examples.ends_as_expected(name, cluster)


def test_an_example_that_ends_otherwise_says_why_and_leaves_nothing(
    cluster: Cluster, installed: None, tmp_path: Path
) -> None:
    spec = pod(["sh", "-c", "echo the data is not there; exit 7"])["spec"]
    spec["securityContext"] = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    spec["containers"][0]["securityContext"] = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    framework = {"apiVersion": names.API_VERSION, "kind": names.KIND, "metadata": {"name": "fails"}}
    framework["spec"] = {"taskRoles": [role("worker", 1, pod={"spec": spec})]}
    folder = tmp_path / "fails"
    folder.mkdir()
    (folder / "framework.yaml").write_text(yaml.safe_dump(framework))
    (folder / "kustomization.yaml").write_text("resources: [framework.yaml]")
    lines: list[str] = []
    outcome = run(local_cluster(cluster), folder, lines.append)
    print(*lines, sep="\n")
    assert outcome.result.startswith("Framework fails ended with ContainerUnrecognizedFailed (7)")
    assert "the data is not there" in outcome.result
    assert "example-fails" not in cluster.kubectl("get", "namespaces", "--output=name")
