"""PyTorch, JAX and MPI find their peers by the files and variables of the barrier: two Pods each, on a real node.

TensorFlow does so in the tests of the demo, whose cluster has its image.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from localcluster import images
from testkit.frameworks import role
from tests.e2e.pods import pod, python

if TYPE_CHECKING:
    from localcluster import Cluster
    from localcluster.client import Json
    from testkit.frameworks import Frameworks

pytestmark = pytest.mark.node

IMAGE = "training"
PYTHON = "/usr/bin/python3"
"""Debian's Python, which has the libraries of Debian's packages."""

REPORT = """
import json
def report(seen):
    with open("/dev/termination-log", "w") as log:
        json.dump(seen, log)
"""


@pytest.fixture(scope="module")
def applications_loaded(cluster: Cluster) -> None:
    for archive in images.build_all([IMAGE]).values():
        cluster.load(archive)


def reports(frameworks: Frameworks, timeout: float) -> dict[str, Any]:
    """Wait until `fw` is Completed; return its Tasks' reports by `<role>-<index>`, addresses by `<role>-<index>@`."""
    status = frameworks.wait("fw", "Completed", timeout)
    completion = status["attemptStatus"]["completionStatus"]
    assert completion["code"] == 0, completion
    found: dict[str, Any] = {}
    for key, task in frameworks.tasks("fw").items():
        attempt = task["attemptStatus"]
        found[f"{key}@"] = attempt["podIP"]
        ends = ((attempt["completionStatus"] or {}).get("pod") or {}).get("containers") or []
        for end in ends:
            if end["name"] == "main" and end.get("message"):
                found[key] = json.loads(end["message"])
    return found


READS_VARIABLES = (
    REPORT
    + """
import os
names = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK", "PET_NNODES", "PET_NPROC_PER_NODE", "PET_RDZV_ENDPOINT")
names += ("NODE_RANK", "PET_RDZV_BACKEND", "GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")
names += ("JAX_COORDINATOR_ADDRESS", "JAX_PROCESS_ID", "OMPI_MCA_orte_default_hostfile", "HYDRA_HOST_FILE")
seen = {name: os.environ.get(name) for name in names}
seen["hostfile"] = open(os.environ["OMPI_MCA_orte_default_hostfile"]).read()
report(seen)
"""
)


def test_every_variable_of_the_presets_reaches_a_container_by_file_key_ref(frameworks: Frameworks) -> None:
    template = pod(python(READS_VARIABLES), preset="pytorch,jax,mpi", env="file", slots="4", nproc_per_node="2")
    frameworks.create("fw", role("worker", 2, pod=template))
    seen = reports(frameworks, 90)
    ips = [seen["worker-0@"], seen["worker-1@"]]
    for index in range(2):
        assert seen[f"worker-{index}"] == {
            "MASTER_ADDR": ips[0],
            "MASTER_PORT": "29500",
            "WORLD_SIZE": "4",
            "RANK": str(index),
            "PET_NNODES": "2",
            "PET_NPROC_PER_NODE": "2",
            "PET_RDZV_ENDPOINT": f"{ips[0]}:29500",
            "NODE_RANK": str(index),
            "PET_RDZV_BACKEND": "static",
            "GLOO_SOCKET_IFNAME": "eth0",
            "NCCL_SOCKET_IFNAME": "=eth0",
            "JAX_COORDINATOR_ADDRESS": f"{ips[0]}:8476",
            "JAX_PROCESS_ID": str(index),
            "OMPI_MCA_orte_default_hostfile": "/mnt/frameworkbarrier/hostfile",
            "HYDRA_HOST_FILE": "/mnt/frameworkbarrier/hostfile.mpich",
            "hostfile": f"{ips[0]} slots=4\n{ips[1]} slots=4\n",
        }


FINDS_INTERFACE = (
    REPORT
    + """
import fcntl, os, socket, struct
probe = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
found = {}
for _, name in socket.if_nameindex():
    try:
        found[socket.inet_ntoa(fcntl.ioctl(probe, 0x8915, struct.pack("256s", name.encode()))[20:24])] = name
    except OSError:
        pass
report({"holds": found[os.environ["MASTER_ADDR"]], "gloo": os.environ["GLOO_SOCKET_IFNAME"], "all": len(found)})
"""
)


def test_in_the_network_of_the_node_gloo_uses_the_interface_of_the_nodes_address(frameworks: Frameworks) -> None:
    template = pod(python(FINDS_INTERFACE), preset="pytorch", env="file")
    template["spec"]["hostNetwork"] = True
    frameworks.create("fw", role("worker", 1, pod=template))
    seen = reports(frameworks, 240)["worker-0"]
    assert seen["gloo"] == seen["holds"]
    assert seen["all"] > 1


ADDS_BY_MPI = (
    REPORT
    + """
import socket
from mpi4py import MPI
world = MPI.COMM_WORLD
hosts, total = world.gather(socket.gethostname()), world.allreduce(world.rank + 1)
if world.rank == 0:
    report({"hosts": sorted(hosts), "sum": total})
"""
)


@pytest.mark.usefixtures("applications_loaded")
def test_mpirun_distributes_its_ranks_over_the_hosts_of_the_hostfile(frameworks: Frameworks) -> None:
    # As usual for MPI jobs, the workers run sshd, the launcher starts the ranks, one of them on itself, and its end is
    # the end of the job.
    serves = ["/usr/sbin/sshd", "-De", "-f", "/etc/ssh/sshd_config"]
    launches = ["mpirun", PYTHON, "-c", ADDS_BY_MPI]

    def template(command: list[str]) -> Json:
        return pod(command, image=IMAGE, preset="mpi", slots="launcher=1,worker=2")

    done = {"minFailedTaskCount": 1, "minSucceededTaskCount": 1}
    launcher = role("launcher", 1, pod=template(launches), completion=done)
    frameworks.create("fw", launcher, role("worker", 1, pod=template(serves)))
    seen = reports(frameworks, 120)
    assert seen["launcher-0"] == {"hosts": ["fw-launcher-0", "fw-worker-0", "fw-worker-0"], "sum": 1 + 2 + 3}


ADDS_BY_JAX = (
    REPORT
    + """
import os, sys
sys.path.insert(0, "/opt/packages")
import jax
from jax.experimental import multihost_utils
jax.distributed.initialize(
    num_processes=int(os.environ["JAX_NUM_PROCESSES"]), process_id=int(os.environ["JAX_PROCESS_ID"])
)
mine = jax.numpy.asarray([10.0 ** jax.process_index()])
everyones = multihost_utils.process_allgather(mine)
report({"process": jax.process_index(), "of": jax.process_count(), "sum": float(everyones.sum())})
"""
)


@pytest.mark.usefixtures("applications_loaded")
def test_jax_gathers_values_from_the_processes_of_both_pods(frameworks: Frameworks) -> None:
    template = pod([PYTHON, "-c", ADDS_BY_JAX], image=IMAGE, preset="jax")
    frameworks.create("fw", role("worker", 2, pod=template))
    seen = reports(frameworks, 180)
    assert seen["worker-0"] == {"process": 0, "of": 2, "sum": 11.0}
    assert seen["worker-1"] == {"process": 1, "of": 2, "sum": 11.0}


ADDS_BY_TORCH = (
    REPORT
    + """
import os
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
total = torch.tensor([10.0 ** dist.get_rank()])
dist.all_reduce(total)
if os.environ.get("LOCAL_RANK", "0") == "0":
    seen = {"rank": dist.get_rank(), "of": dist.get_world_size(), "sum": float(total)}
    seen |= {"at": os.environ["PET_RDZV_ENDPOINT"]} if "PET_LOCAL_ADDR" in os.environ else {}
    report(seen)
dist.barrier()
"""
)


@pytest.mark.usefixtures("applications_loaded")
def test_pytorch_reduces_over_both_pods_from_the_variables_of_init_process_group(frameworks: Frameworks) -> None:
    template = pod([PYTHON, "-c", ADDS_BY_TORCH], image=IMAGE, preset="pytorch")
    frameworks.create("fw", role("master", 1, pod=template), role("worker", 1, pod=template))
    seen = reports(frameworks, 180)
    assert seen["master-0"] == {"rank": 0, "of": 2, "sum": 11.0}
    assert seen["worker-0"] == {"rank": 1, "of": 2, "sum": 11.0}


@pytest.mark.usefixtures("applications_loaded")
def test_torchrun_needs_no_arguments_about_the_gang_for_two_processes_in_each_of_two_pods(
    frameworks: Frameworks,
) -> None:
    # PyTorch 1.13 on Python 3.11 fails with its own default of both options, which is 0.
    workaround = ["--redirects=1", "--tee=1"]
    torchrun = [PYTHON, "-m", "torch.distributed.run", *workaround]
    template = pod(
        [*torchrun, "--no_python", PYTHON, "-c", ADDS_BY_TORCH],
        image=IMAGE,
        preset="pytorch",
        nproc_per_node="2",
    )
    frameworks.create("fw", role("worker", 2, pod=template))
    seen = reports(frameworks, 180)
    assert seen["worker-0"] == {"rank": 0, "of": 4, "sum": 1111.0}
    assert seen["worker-1"] == {"rank": 2, "of": 4, "sum": 1111.0}


@pytest.mark.usefixtures("applications_loaded")
def test_an_elastic_torchrun_meets_by_the_name_of_its_first_pod(frameworks: Frameworks) -> None:
    torchrun = [PYTHON, "-m", "torch.distributed.run", "--redirects=1", "--tee=1", "--no_python"]
    template = pod(
        [*torchrun, PYTHON, "-c", ADDS_BY_TORCH],
        image=IMAGE,
        mode="sidecar",
        preset="pytorch",
        nnodes="2:3",
        max_restarts="3",
    )
    frameworks.create("fw", role("worker", 2, pod=template))
    seen = reports(frameworks, 240)
    assert {seen[f"worker-{index}"]["rank"] for index in range(2)} == {0, 1}
    for index in range(2):
        found = seen[f"worker-{index}"]
        assert (found["of"], found["sum"], found["at"]) == (2, 11.0, "fw-worker-0:29500")
