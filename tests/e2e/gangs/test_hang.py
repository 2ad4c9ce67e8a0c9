"""Gangs of torch that hang, and train on from their checkpoint (docs/reference/progress.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from localcluster.images import images
from testkit.frameworks import role
from tests.e2e.pods import pod

if TYPE_CHECKING:
    from localcluster import Cluster
    from testkit.frameworks import Frameworks

pytestmark = pytest.mark.node

IMAGE = "training"
TRAIN = """
import os, signal, time, torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
FOLDER = "/mnt/frameworkprogress"  # it stays where the Pod stays
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(1)
model = DistributedDataParallel(torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), 0.01)
begin = 0
if os.path.exists(f"{FOLDER}/saved.pt"):
    saved = torch.load(f"{FOLDER}/saved.pt")
    begin = saved["step"]
    model.load_state_dict(saved["model"])
begins = torch.tensor([begin])
dist.broadcast(begins, 0)
print("begins at", int(begins), flush=True)

def stopped(): os.kill(os.getpid(), signal.SIGSTOP)
def loop():
    while True: pass
def elsewhere(): time.sleep(10**6)

for step in range(int(begins), 300):
    if rank == 1 and step == 200 and not os.path.exists(f"{FOLDER}/was-here"):
        open(f"{FOLDER}/was-here", "w").close()
        KIND()
    time.sleep(0.1)
    optimizer.zero_grad()
    model(torch.ones(4, 8)).sum().backward()
    optimizer.step()
    if rank == 0 and step % 50 == 49:
        torch.save({"step": step + 1, "model": model.state_dict()}, f"{FOLDER}/saved.pt")
"""
KINDS = {"stopped": True, "loop": True, "elsewhere": True}


@pytest.fixture(scope="module")
def applications_loaded(cluster: Cluster) -> None:
    for archive in images.build_all([IMAGE]).values():
        cluster.load(archive)


def training(kind: str, **annotations: Any) -> dict[str, Any]:
    # The first process of a container cannot be stopped from within.
    command = ["sh", "-c", '/usr/bin/python3 -c "$0"; exit $?', TRAIN.replace("KIND", kind)]
    limits = {"hang-floor": "10", "hang-first": "30"}
    return role("worker", 3, pod=pod(command, image=IMAGE, preset="pytorch", progress="torch", **limits, **annotations))


@pytest.mark.usefixtures("applications_loaded")
@pytest.mark.parametrize("kind", KINDS)
def test_a_gang_that_hangs_trains_on_in_its_pods(kind: str, frameworks: Frameworks) -> None:
    frameworks.create("fw", training(kind, hang="restart", restart="in-place"))
    status = frameworks.wait("fw", "Completed", 240)
    assert status["attemptStatus"]["completionStatus"]["code"] == 0, status["attemptStatus"]
    restarts = status["attemptStatus"]["lastGangRestarts"]
    assert [one["reason"] for one in restarts] == ["Hung"], restarts
    culprits = status["hangs"]["last"]["culprits"]
    assert [one["task"] for one in culprits] == ["worker-1"], status["hangs"]
    assert status["ledger"]["total"]["hung"] >= 10
