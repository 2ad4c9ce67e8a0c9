"""The barrier in real Pods on a real node: what a kubelet makes of its files, and a sidecar while its gang changes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from demo import cluster as access
from demo import deploy, manifests
from localcluster import images
from support import eventually
from support.frameworks import Frameworks, role

if TYPE_CHECKING:
    from localcluster import Cluster
    from support.raw import Json, Raw

pytestmark = pytest.mark.node

PREFIX = "barrier.frameworkcontroller.microsoft.com/"
STAYS = "import time\nwhile True: time.sleep(1)"


@pytest.fixture(scope="session")
def cluster(node_cluster: Cluster) -> Cluster:
    """What the other fixtures are about, here: the cluster with a real node."""
    return node_cluster


@pytest.fixture(scope="session")
def installed(cluster: Cluster) -> None:
    """The three programs, built, loaded and deployed as their manifests say, and ready."""
    for archive in images.build_all(("barrier", "controller", "injector")).values():
        cluster.load(archive)
    deploy.deploy(access.connect(os.fspath(cluster.kubeconfig), None), manifests.programs(manifests.Naming()), print)


@pytest.fixture
def frameworks(raw: Raw, namespace: str, installed: None) -> Frameworks:
    """The Frameworks of the test's namespace."""
    return Frameworks(raw, namespace)


def pod(program: str, **annotations: str) -> Json:
    return {
        "metadata": {
            "labels": {"frameworkcontroller.microsoft.com/barrier": "enabled"},
            "annotations": {PREFIX + name.replace("_", "-"): value for name, value in annotations.items()},
        },
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 1,
            "containers": [
                {
                    "name": "main",
                    # Any image with Python does; this one is there.
                    "image": images.reference("barrier"),
                    "imagePullPolicy": "IfNotPresent",
                    "command": ["python3", "-c", program],
                }
            ],
        },
    }


def test_a_sidecar_keeps_etc_hosts_true_in_the_running_container(cluster: Cluster, frameworks: Frameworks) -> None:
    template = pod(STAYS, mode="sidecar", hosts="mount", preset="pytorch")
    worker = role("worker", 2, pod=template)
    frameworks.create("fw", worker)

    def read(name: str, path: str) -> str:
        return cluster.kubectl("exec", name, "-c", "main", "-n", frameworks.namespace, "--", "cat", path)

    def runs() -> None:
        for found in frameworks.pods().values():
            states = found["status"].get("containerStatuses") or [{}]
            assert states[0].get("started"), found["status"]
        assert len(frameworks.pods()) == 2

    eventually(runs, 90, 0.5)
    assert "worker-2" not in read("fw-worker-0", "/etc/hosts")
    assert read("fw-worker-0", "/mnt/frameworkbarrier/generation") == "1\n"

    frameworks.merge("fw", taskRoles=[{**worker, "taskNumber": 3}])

    def newcomer_has_an_address() -> str:
        tasks = frameworks.tasks("fw")
        assert tasks.get("worker-2", {}).get("attemptStatus", {}).get("podIP")
        return str(tasks["worker-2"]["attemptStatus"]["podIP"])

    address = eventually(newcomer_has_an_address, 60, 0.1)

    def knows_the_newcomer() -> None:
        assert f"{address}\tfw-worker-2 worker-2 " in read("fw-worker-0", "/etc/hosts")
        assert read("fw-worker-0", "/mnt/frameworkbarrier/worker.hosts").splitlines()[2] == address
        assert int(read("fw-worker-0", "/mnt/frameworkbarrier/generation")) > 1

    eventually(knows_the_newcomer, 10, 0.2)
    state = frameworks.pods()["fw-worker-0"]["status"]
    assert [each["restartCount"] for each in state["containerStatuses"]] == [0]
    assert [each["restartCount"] for each in state["initContainerStatuses"]] == [0]


READS_ENV = """
import json, os
names = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK", "PET_NNODES", "PET_NPROC_PER_NODE", "PET_RDZV_ENDPOINT")
names += ("JAX_COORDINATOR_ADDRESS", "JAX_PROCESS_ID", "OMPI_MCA_orte_default_hostfile", "HYDRA_HOST_FILE")
seen = {name: os.environ.get(name) for name in names}
seen["hostfile"] = open(os.environ["OMPI_MCA_orte_default_hostfile"]).read()
with open("/dev/termination-log", "w") as log:
    json.dump(seen, log)
"""


def test_every_variable_of_the_presets_reaches_a_container_by_file_key_ref(frameworks: Frameworks) -> None:
    import json

    template = pod(READS_ENV, preset="pytorch,jax,mpi", env="file", slots="4", nproc_per_node="2")
    frameworks.create("fw", role("worker", 2, pod=template))
    status = frameworks.wait("fw", "Completed", 90)
    assert status["attemptStatus"]["completionStatus"]["code"] == 0, status["attemptStatus"]["completionStatus"]
    tasks = frameworks.tasks("fw")
    ips = [tasks[f"worker-{index}"]["attemptStatus"]["podIP"] for index in range(2)]
    for index in range(2):
        ends = tasks[f"worker-{index}"]["attemptStatus"]["completionStatus"]["pod"]["containers"]
        seen = json.loads(next(end["message"] for end in ends if end["name"] == "main"))
        assert seen == {
            "MASTER_ADDR": ips[0],
            "MASTER_PORT": "29500",
            "WORLD_SIZE": "4",
            "RANK": str(index),
            "PET_NNODES": "2",
            "PET_NPROC_PER_NODE": "2",
            "PET_RDZV_ENDPOINT": f"{ips[0]}:29500",
            "JAX_COORDINATOR_ADDRESS": f"{ips[0]}:8476",
            "JAX_PROCESS_ID": str(index),
            "OMPI_MCA_orte_default_hostfile": "/mnt/frameworkbarrier/hostfile",
            "HYDRA_HOST_FILE": "/mnt/frameworkbarrier/hostfile.mpich",
            "hostfile": f"{ips[0]} slots=4\n{ips[1]} slots=4\n",
        }
