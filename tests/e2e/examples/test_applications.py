"""PyTorch, JAX and MPI find their peers by the files and variables of the barrier: two Pods each, on a real node.

TensorFlow does so in the tests of the demo, whose cluster has its image.
"""

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


ADDS_BY_JAX = """
import os, sys
sys.path.insert(0, "/opt/packages")
import jax
from jax.experimental import multihost_utils
jax.distributed.initialize(
    num_processes=int(os.environ["JAX_NUM_PROCESSES"]), process_id=int(os.environ["JAX_PROCESS_ID"])
)
mine = jax.numpy.asarray([10.0 ** jax.process_index()])
everyones = multihost_utils.process_allgather(mine)
report({"rank": jax.process_index(), "of": jax.process_count(), "sum": float(everyones.sum())})
"""


ADDS_BY_TORCH = """
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


# PyTorch 1.13 on Python 3.11 fails with its own default of redirects and tee, which is 0.
TORCHRUN = [DEBIANS_PYTHON, "-m", "torch.distributed.run", "--redirects=1", "--tee=1", "--no_python"]
# The command, the barrier's settings, the TaskRoles, and the first rank, the number of ranks and the sum in each.
GANGS: dict[str, tuple[list[str], dict[str, str], dict[str, int], dict[str, tuple[int, int, float]]]] = {
    "JAX": (
        [DEBIANS_PYTHON, "-c", REPORT + ADDS_BY_JAX],
        {"preset": "jax"},
        {"worker": 2},
        {"worker-0": (0, 2, 11.0), "worker-1": (1, 2, 11.0)},
    ),
    "PyTorch by the variables of init_process_group": (
        [DEBIANS_PYTHON, "-c", REPORT + ADDS_BY_TORCH],
        {"preset": "pytorch"},
        {"master": 1, "worker": 1},
        {"master-0": (0, 2, 11.0), "worker-0": (1, 2, 11.0)},
    ),
    "torchrun without arguments about the gang": (
        [*TORCHRUN, DEBIANS_PYTHON, "-c", REPORT + ADDS_BY_TORCH],
        {"preset": "pytorch", "nproc_per_node": "2"},
        {"worker": 2},
        {"worker-0": (0, 4, 1111.0), "worker-1": (2, 4, 1111.0)},
    ),
}


@pytest.mark.usefixtures("training_image")
@pytest.mark.parametrize("case", GANGS)
def test_the_processes_of_two_pods_compute_together(case: str, frameworks: Frameworks) -> None:
    command, settings, roles, expected = GANGS[case]
    template = pod(command, image=TRAINING, **settings)
    frameworks.create("fw", *(role(name, number, pod=template) for name, number in roles.items()))
    seen = reports(frameworks, 180)
    assert {name: (seen[name]["rank"], seen[name]["of"], seen[name]["sum"]) for name in expected} == expected


@pytest.mark.usefixtures("training_image")
def test_an_elastic_torchrun_meets_by_the_name_of_its_first_pod(frameworks: Frameworks) -> None:
    settings = {"mode": "sidecar", "preset": "pytorch", "nnodes": "2:3", "max_restarts": "3"}
    template = pod([*TORCHRUN, DEBIANS_PYTHON, "-c", REPORT + ADDS_BY_TORCH], image=TRAINING, **settings)
    frameworks.create("fw", role("worker", 2, pod=template))
    seen = reports(frameworks, 240)
    assert {seen["worker-0"]["rank"], seen["worker-1"]["rank"]} == {0, 1}
    for found in (seen["worker-0"], seen["worker-1"]):
        assert (found["of"], found["sum"], found["at"]) == (2, 11.0, "fw-worker-0:29500")
