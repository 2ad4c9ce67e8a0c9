"""Every example ends as it should, on a real node, by the code of `make example`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from frameworkdemo.examples import catalogue
from frameworkdemo.examples.run import AS_EXPECTED, run
from localcluster import images
from tests.examples import choice

if TYPE_CHECKING:
    from pathlib import Path

    from localcluster import Cluster

pytestmark = pytest.mark.node


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in choice.IN_CI else pytest.mark.long) for name in catalogue.names()],
)
def test_the_example_ends_as_expected(name: str, cluster: Cluster, installed: None) -> None:
    folder = catalogue.folder_of(name)
    for archive in images.build_all(catalogue.images_of([folder])).values():
        cluster.load(archive)
    outcome = run(cluster, folder)
    print(outcome)
    assert outcome.result == AS_EXPECTED
    assert f"example-{name}" not in cluster.kubectl("get", "namespaces", "--output=name")


FAILS = """
apiVersion: frameworkcontroller.microsoft.com/v1
kind: Framework
metadata: {name: fails}
spec:
  taskRoles:
  - name: worker
    taskNumber: 1
    frameworkAttemptCompletionPolicy: {minFailedTaskCount: 1, minSucceededTaskCount: -1}
    task:
      pod:
        spec:
          restartPolicy: Never
          securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
          containers:
          - name: main
            image: docker.io/frameworkcontroller/barrier:dev
            imagePullPolicy: IfNotPresent
            command: [sh, -c, "echo the data is not there; exit 7"]
            securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
"""


def test_an_example_that_ends_otherwise_says_why_and_leaves_nothing(
    cluster: Cluster, installed: None, tmp_path: Path
) -> None:
    folder = tmp_path / "fails"
    folder.mkdir()
    (folder / "framework.yaml").write_text(FAILS)
    (folder / "kustomization.yaml").write_text("resources: [framework.yaml]")
    lines: list[str] = []
    outcome = run(cluster, folder, lines.append)
    print(*lines, sep="\n")
    assert outcome.result.startswith("Framework fails ended with ContainerUnrecognizedFailed (7)")
    assert (outcome.pods, outcome.gate) == (1, None)
    assert "the data is not there" in outcome.result
    assert "example-fails" not in cluster.kubectl("get", "namespaces", "--output=name")
