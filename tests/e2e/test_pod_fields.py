"""What the barrier's container asks for and where its files are, on a real node."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from testkit.frameworks import role
from tests.e2e.pods import all_run, pod, python

if TYPE_CHECKING:
    from localcluster import Cluster
    from localcluster.client import Json
    from testkit.frameworks import Frameworks

pytestmark = pytest.mark.node

FOLDER = "/srv/gang"
REPORT = """
import json, os
seen = {
    "TF_CONFIG": sorted(json.loads(os.environ["TF_CONFIG"])["cluster"]),
    "hostfile": os.environ["HYDRA_HOST_FILE"],
    "hosts": open(os.environ["HYDRA_HOST_FILE"]).read(),
    "mnt": os.listdir("/mnt"),
    "files": sorted(os.listdir("/srv/gang")),
    "peers": "worker-0" in open("/etc/hosts").read(),
}
with open("/dev/termination-log", "w") as log:
    json.dump(seen, log)
"""


def with_volume_at_mnt(**annotations: str) -> Json:
    template = pod(python(REPORT), preset="tensorflow,mpi", output_dir=FOLDER, **annotations)
    template["spec"]["volumes"] = [{"name": "data", "emptyDir": {}}]
    template["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/mnt", "readOnly": True}]
    return template


def test_a_pod_with_a_volume_at_mnt_has_the_files_in_another_folder(frameworks: Frameworks) -> None:
    frameworks.create(
        "fw",
        role("worker", 1, pod=with_volume_at_mnt()),
        role("ps", 1, pod=with_volume_at_mnt(env="wrap", mode="sidecar")),
    )
    status = frameworks.wait("fw", "Completed", 90)
    assert status["attemptStatus"]["completionStatus"]["code"] == 0, status["attemptStatus"]["completionStatus"]
    for task in frameworks.tasks("fw").values():
        ends = {end["name"]: end for end in task["attemptStatus"]["completionStatus"]["pod"]["containers"]}
        seen = json.loads(ends["main"]["message"])
        assert (seen["TF_CONFIG"], seen["mnt"], seen["peers"]) == (["ps", "worker"], [], True)
        assert seen["hostfile"] == f"{FOLDER}/hostfile.mpich"
        assert seen["hosts"]
        assert {"env", "generation", "hosts", "injector.sh", "run"} <= set(seen["files"])


@pytest.mark.parametrize("mode", ["init", "sidecar"])
def test_a_guaranteed_pod_runs_as_one(mode: str, cluster: Cluster, frameworks: Frameworks) -> None:
    template = pod(["sleep", "600"], mode=mode)
    amounts = {"cpu": "100m", "memory": "64Mi"}
    template["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
    frameworks.create("fw", role("worker", 2, pod=template))
    all_run(frameworks, 2)
    assert [each["status"]["qosClass"] for each in frameworks.pods().values()] == ["Guaranteed"] * 2
