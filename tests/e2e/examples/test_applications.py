"""torchrun and MPI find their peers by the files and variables of the barrier: two Pods each, on a real node.

JAX and PyTorch without torchrun do so in `gangs/test_exit`, TensorFlow in the tests of the demo, whose cluster has its
image.
"""

from typing import Any

import pytest

from testkit.frameworks import Frameworks, role
from tests.e2e.pods import DEBIANS_PYTHON, REPORT, TRAINING, pod, python, reports

pytestmark = pytest.mark.node

FINDS_INTERFACE = """
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


def test_in_the_network_of_the_node_gloo_uses_the_interface_of_the_nodes_address(frameworks: Frameworks) -> None:
    template = pod(python(REPORT + FINDS_INTERFACE), preset="pytorch", env="file")
    template["spec"]["hostNetwork"] = True
    frameworks.create("fw", role("worker", 1, pod=template))
    seen = reports(frameworks, 240)["worker-0"]
    assert seen["gloo"] == seen["holds"]
    assert seen["all"] > 1


ADDS_BY_MPI = """
import socket
from mpi4py import MPI
world = MPI.COMM_WORLD
hosts, total = world.gather(socket.gethostname()), world.allreduce(world.rank + 1)
if world.rank == 0:
    report({"hosts": sorted(hosts), "sum": total})
"""


@pytest.mark.usefixtures("training_image")
def test_mpirun_distributes_its_ranks_over_the_hosts_of_the_hostfile(frameworks: Frameworks) -> None:
    # As usual for MPI jobs, the workers run sshd, the launcher starts the ranks, one of them on itself, and its end is
    # the end of the job.
    settings = {"preset": "mpi", "slots": "launcher=1,worker=2"}
    launches = pod(["mpirun", DEBIANS_PYTHON, "-c", REPORT + ADDS_BY_MPI], image=TRAINING, **settings)
    serves = pod(["/usr/sbin/sshd", "-De", "-f", "/etc/ssh/sshd_config"], image=TRAINING, **settings)
    done = {"minFailedTaskCount": 1, "minSucceededTaskCount": 1}
    frameworks.create("fw", role("launcher", 1, pod=launches, completion=done), role("worker", 1, pod=serves))
    seen = reports(frameworks, 120)
    assert seen["launcher-0"] == {"hosts": ["fw-launcher-0", "fw-worker-0", "fw-worker-0"], "sum": 1 + 2 + 3}


ADDS_BY_TORCH = """
import os
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
total = torch.tensor([10.0 ** dist.get_rank()])
dist.all_reduce(total)
if os.environ["LOCAL_RANK"] == "0":
    at = os.environ["PET_RDZV_ENDPOINT"]
    report({"rank": dist.get_rank(), "of": dist.get_world_size(), "sum": float(total), "at": at})
dist.barrier()
"""


# PyTorch 1.13 on Python 3.11 fails with its own default of redirects and tee, which is 0.
TORCHRUN = [DEBIANS_PYTHON, "-m", "torch.distributed.run", "--redirects=1", "--tee=1", "--no_python"]


def torchrun(frameworks: Frameworks, **settings: str) -> dict[str, Any]:
    """Return what two Pods have computed that run torchrun without arguments about the gang."""
    command = [*TORCHRUN, DEBIANS_PYTHON, "-c", REPORT + ADDS_BY_TORCH]
    frameworks.create("fw", role("worker", 2, pod=pod(command, image=TRAINING, preset="pytorch", **settings)))
    return reports(frameworks, 240)


@pytest.mark.usefixtures("training_image")
def test_torchrun_needs_no_arguments_about_the_gang(frameworks: Frameworks) -> None:
    found = torchrun(frameworks, nproc_per_node="2")
    ranks = {name: (one["rank"], one["of"], one["sum"]) for name, one in found.items()}
    assert ranks == {"worker-0": (0, 4, 1111.0), "worker-1": (2, 4, 1111.0)}


@pytest.mark.usefixtures("training_image")
def test_an_elastic_torchrun_meets_by_the_name_of_its_first_pod(frameworks: Frameworks) -> None:
    found = torchrun(frameworks, mode="sidecar", nnodes="2:3", max_restarts="3")
    assert sorted(one["rank"] for one in found.values()) == [0, 1]
    assert [(one["of"], one["sum"], one["at"]) for one in found.values()] == [(2, 11.0, "fw-worker-0:29500")] * 2
