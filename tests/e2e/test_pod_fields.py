"""What the barrier's container asks for and where its files are, on a real node."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from testkit.frameworks import role
from tests.e2e.pods import all_run, pod, python

if TYPE_CHECKING:
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
    wrapped = with_volume_at_mnt(env="wrap", mode="sidecar")
    frameworks.create("fw", role("worker", 1, pod=with_volume_at_mnt()), role("ps", 1, pod=wrapped))
    completion = frameworks.wait("fw", "Completed", 90)["attemptStatus"]["completionStatus"]
    assert completion["code"] == 0, completion
    for task in frameworks.tasks("fw").values():
        ends = {end["name"]: end for end in task["attemptStatus"]["completionStatus"]["pod"]["containers"]}
        seen = json.loads(ends["main"]["message"])
        assert (seen["TF_CONFIG"], seen["mnt"], seen["peers"]) == (["ps", "worker"], [], True)
        assert seen["hostfile"] == f"{FOLDER}/hostfile.mpich"
        assert seen["hosts"]
        assert {"env", "generation", "hosts", "injector.sh", "run"} <= set(seen["files"])


def test_guaranteed_pods_run_as_such(frameworks: Frameworks) -> None:
    amounts = {"cpu": "100m", "memory": "64Mi"}
    templates = {mode: pod(["sleep", "600"], mode=mode) for mode in ("init", "sidecar")}
    for template in templates.values():
        template["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
    frameworks.create("fw", *(role(mode, 1, pod=template) for mode, template in templates.items()))
    all_run(frameworks, 2)
    assert [each["status"]["qosClass"] for each in frameworks.pods().values()] == ["Guaranteed"] * 2
