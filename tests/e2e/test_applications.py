"""Frameworks of the field find each other by what the barrier gives them: two Pods each, on a real node.

TensorFlow does so in the tests of the demo, whose cluster has its image.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from e2e import applications
from e2e.pods import pod, python
from support.frameworks import role

if TYPE_CHECKING:
    from localcluster import Cluster
    from support.frameworks import Frameworks
    from support.raw import Json

pytestmark = pytest.mark.node

PYTHON = "/usr/bin/python3"
"""Debian's, which has Debian's libraries."""

TELL = """
import json
def tell(seen):
    with open("/dev/termination-log", "w") as log:
        json.dump(seen, log)
"""


@pytest.fixture(scope="module")
def applications_loaded(cluster: Cluster) -> None:
    cluster.load(applications.build())


def told(frameworks: Frameworks, timeout: float) -> dict[str, Any]:
    """Wait for the end of `fw`; what its Tasks told, by `role-index`, and their addresses as `role-index@`."""
    status = frameworks.wait("fw", "Completed", timeout)
    completion = status["attemptStatus"]["completionStatus"]
    assert completion["code"] == 0, completion
    found: dict[str, Any] = {}
    for slot, task in frameworks.tasks("fw").items():
        attempt = task["attemptStatus"]
        found[f"{slot}@"] = attempt["podIP"]
        ends = ((attempt["completionStatus"] or {}).get("pod") or {}).get("containers") or []
        for end in ends:
            if end["name"] == "main" and end.get("message"):
                found[slot] = json.loads(end["message"])
    return found


READS_VARIABLES = (
    TELL
    + """
import os
names = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK", "PET_NNODES", "PET_NPROC_PER_NODE", "PET_RDZV_ENDPOINT")
names += ("JAX_COORDINATOR_ADDRESS", "JAX_PROCESS_ID", "OMPI_MCA_orte_default_hostfile", "HYDRA_HOST_FILE")
seen = {name: os.environ.get(name) for name in names}
seen["hostfile"] = open(os.environ["OMPI_MCA_orte_default_hostfile"]).read()
tell(seen)
"""
)


def test_every_variable_of_the_presets_reaches_a_container_by_file_key_ref(frameworks: Frameworks) -> None:
    template = pod(python(READS_VARIABLES), preset="pytorch,jax,mpi", env="file", slots="4", nproc_per_node="2")
    frameworks.create("fw", role("worker", 2, pod=template))
    seen = told(frameworks, 90)
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
            "JAX_COORDINATOR_ADDRESS": f"{ips[0]}:8476",
            "JAX_PROCESS_ID": str(index),
            "OMPI_MCA_orte_default_hostfile": "/mnt/frameworkbarrier/hostfile",
            "HYDRA_HOST_FILE": "/mnt/frameworkbarrier/hostfile.mpich",
            "hostfile": f"{ips[0]} slots=4\n{ips[1]} slots=4\n",
        }


ADDS_BY_MPI = (
    TELL
    + """
import socket
from mpi4py import MPI
world = MPI.COMM_WORLD
hosts, total = world.gather(socket.gethostname()), world.allreduce(world.rank + 1)
if world.rank == 0:
    tell({"hosts": sorted(hosts), "sum": total})
"""
)


@pytest.mark.usefixtures("applications_loaded")
def test_mpirun_spreads_its_ranks_over_the_hosts_of_the_hostfile(frameworks: Frameworks) -> None:
    # As MPI jobs are run: the workers serve, the launcher starts the ranks, one of them here, and its end is the end.
    serves = ["/usr/sbin/sshd", "-De", "-f", "/etc/ssh/sshd_config"]
    launches = ["mpirun", PYTHON, "-c", ADDS_BY_MPI]

    def template(command: list[str]) -> Json:
        return pod(command, image=applications.NAME, preset="mpi", slots="launcher=1,worker=2")

    done = {"minFailedTaskCount": 1, "minSucceededTaskCount": 1}
    launcher = role("launcher", 1, pod=template(launches), completion=done)
    frameworks.create("fw", launcher, role("worker", 1, pod=template(serves)))
    seen = told(frameworks, 120)
    assert seen["launcher-0"] == {"hosts": ["fw-launcher-0", "fw-worker-0", "fw-worker-0"], "sum": 1 + 2 + 3}


ADDS_BY_JAX = (
    TELL
    + """
import os, sys
sys.path.insert(0, "/opt/jax")
import jax
from jax.experimental import multihost_utils
jax.distributed.initialize(
    num_processes=int(os.environ["JAX_NUM_PROCESSES"]), process_id=int(os.environ["JAX_PROCESS_ID"])
)
mine = jax.numpy.asarray([10.0 ** jax.process_index()])
everyones = multihost_utils.process_allgather(mine)
tell({"process": jax.process_index(), "of": jax.process_count(), "sum": float(everyones.sum())})
"""
)


@pytest.mark.usefixtures("applications_loaded")
def test_jax_gathers_values_from_the_processes_of_both_pods(frameworks: Frameworks) -> None:
    template = pod([PYTHON, "-c", ADDS_BY_JAX], image=applications.NAME, preset="jax")
    frameworks.create("fw", role("worker", 2, pod=template))
    seen = told(frameworks, 180)
    assert seen["worker-0"] == {"process": 0, "of": 2, "sum": 11.0}
    assert seen["worker-1"] == {"process": 1, "of": 2, "sum": 11.0}


ADDS_BY_TORCH = (
    TELL
    + """
import os
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
total = torch.tensor([10.0 ** dist.get_rank()])
dist.all_reduce(total)
if os.environ.get("LOCAL_RANK", "0") == "0":
    tell({"rank": dist.get_rank(), "of": dist.get_world_size(), "sum": float(total)})
dist.barrier()
"""
)


@pytest.mark.usefixtures("applications_loaded")
def test_pytorch_reduces_over_both_pods_from_the_variables_of_init_process_group(frameworks: Frameworks) -> None:
    template = pod([PYTHON, "-c", ADDS_BY_TORCH], image=applications.NAME, preset="pytorch")
    frameworks.create("fw", role("master", 1, pod=template), role("worker", 1, pod=template))
    seen = told(frameworks, 180)
    assert seen["master-0"] == {"rank": 0, "of": 2, "sum": 11.0}
    assert seen["worker-0"] == {"rank": 1, "of": 2, "sum": 11.0}


@pytest.mark.usefixtures("applications_loaded")
def test_torchrun_needs_no_word_of_the_gang_for_two_processes_in_each_of_two_pods(frameworks: Frameworks) -> None:
    # PyTorch 1.13 on Python 3.11 fails at its own default of both, which is 0.
    workaround = ["--redirects=1", "--tee=1"]
    torchrun = [PYTHON, "-m", "torch.distributed.run", *workaround]
    template = pod(
        [*torchrun, "--no_python", PYTHON, "-c", ADDS_BY_TORCH],
        image=applications.NAME,
        preset="pytorch",
        nproc_per_node="2",
    )
    frameworks.create("fw", role("worker", 2, pod=template))
    seen = told(frameworks, 180)
    assert seen["worker-0"] == {"rank": 0, "of": 4, "sum": 1111.0}
    assert seen["worker-1"] == {"rank": 2, "of": 4, "sum": 1111.0}
