"""Every example ends as it should, on a real node, by the code of `make example`.

Those of training are in `test_training_examples`, so that two workers of pytest share the examples.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from frameworkdemo.cluster import local_cluster
from frameworkdemo.examples.run import run
from tests.e2e import examples

if TYPE_CHECKING:
    from pathlib import Path

    from localcluster import Cluster

pytestmark = [pytest.mark.node, pytest.mark.turns("drills")]


@pytest.mark.parametrize("name", examples.others())
def test_the_example_ends_as_expected(name: str, cluster: Cluster, installed: None) -> None:
    examples.ends_as_expected(name, cluster)


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
    outcome = run(local_cluster(cluster), folder, lines.append)
    print(*lines, sep="\n")
    assert outcome.result.startswith("Framework fails ended with ContainerUnrecognizedFailed (7)")
    assert "the data is not there" in outcome.result
    assert "example-fails" not in cluster.kubectl("get", "namespaces", "--output=name")
