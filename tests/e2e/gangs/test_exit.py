"""`exit: together`: rank 0 ends early, and its peers still find the store of torch, or the coordinator of JAX."""

import pytest

from testkit.frameworks import Frameworks, role
from tests.e2e.pods import DEBIANS_PYTHON, TRAINING, pod
from tests.support.waiting import becomes

pytestmark = [pytest.mark.node, pytest.mark.usefixtures("training_image")]

LATER = 15
TORCH = f"""
import time
import torch.distributed as dist
dist.init_process_group("gloo")
dist.barrier()
if dist.get_rank():
    time.sleep({LATER})
    store = dist.distributed_c10d._get_default_store()
    store.set(f"last-{{dist.get_rank()}}", "words")
    assert store.get(f"last-{{dist.get_rank()}}") == b"words"
    dist.destroy_process_group()
"""
JAX = f"""
import os, sys, time
sys.path.insert(0, "/opt/packages")
import jax
from jax._src import distributed
from jax.experimental import multihost_utils
number = int(os.environ["JAX_PROCESS_ID"])
# It waits for the others by itself, 5 minutes by default.
jax.distributed.initialize(
    num_processes=int(os.environ["JAX_NUM_PROCESSES"]), process_id=number, shutdown_timeout_seconds=5
)
multihost_utils.process_allgather(jax.numpy.asarray([1.0]))
if number:
    time.sleep({LATER})
    distributed.global_state.client.key_value_set(f"last-{{number}}", "words")
else:
    os.environ.pop("FB_EXIT_PID", None)  # as in a process of a launcher: it has joined, so it is held
"""
PROGRAMS = {"pytorch": TORCH, "jax": JAX}


def start(frameworks: Frameworks, library: str, **settings: str) -> None:
    template = pod([DEBIANS_PYTHON, "-c", PROGRAMS[library]], image=TRAINING, preset=library, **settings)
    frameworks.create("fw", role("worker", 3, pod=template))


@pytest.mark.parametrize("library", PROGRAMS)
def test_who_ends_first_stays_for_its_peers(library: str, frameworks: Frameworks) -> None:
    start(frameworks, library, exit="together")
    becomes(
        lambda: {name: task["attemptStatus"].get("held") for name, task in frameworks.tasks("fw").items()},
        {"worker-0": True, "worker-1": False, "worker-2": False},
        120,
    )
    end = frameworks.wait("fw", "Completed", 120)["attemptStatus"]["completionStatus"]
    assert end["code"] == 0, end


@pytest.mark.parametrize("library", PROGRAMS)
def test_without_it_the_others_fail(library: str, frameworks: Frameworks) -> None:
    # The first that ends well does not decide: all have to, and one failure is enough.
    start(frameworks, library, env="wrap")
    status = frameworks.wait("fw", "Completed", 240)
    assert status["attemptStatus"]["completionStatus"]["code"] != 0
