"""Gangs of torch that hang, and train on from their checkpoint (docs/reference/progress.md)."""

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest

from testkit.frameworks import Frameworks, role
from testkit.waiting import eventually
from tests.e2e.pods import TRAINING, pod

pytestmark = pytest.mark.node

FLOOR, FIRST = 5, 25
TRAIN = """
import os, signal, sys, time, torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
FOLDER = "/mnt/frameworkprogress"  # it stays where the Pod stays
KIND, BAD = sys.argv[1], int(sys.argv[2])
dist.init_process_group("gloo")
rank = dist.get_rank()
model = DistributedDataParallel(torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), 0.01)
begin = torch.zeros(1, dtype=torch.int64)
if os.path.exists(f"{FOLDER}/saved.pt"):
    saved = torch.load(f"{FOLDER}/saved.pt")
    begin += saved["step"]
    model.load_state_dict(saved["model"])
dist.broadcast(begin, 0)

class Slow:
    def __reduce__(self):
        time.sleep(12)
        return (int, ())

def trouble():
    if KIND == "stopped": os.kill(os.getpid(), signal.SIGSTOP)
    while KIND == "loop": pass
    if KIND in ("elsewhere", "network"): time.sleep(10**6 if KIND == "elsewhere" else 0)
    if KIND == "checkpoint": torch.save(Slow(), f"{FOLDER}/large.pt")
    if KIND == "evaluation":
        for _ in torch.utils.data.DataLoader(list(range(60))): time.sleep(0.2)

if KIND == "first": time.sleep(15)
for step in range(int(begin), 240):
    mark = f"{FOLDER}/was-here-{rank}"
    if step == 160 and not os.path.exists(mark):
        open(mark, "w").close()
        if rank == BAD or KIND in ("checkpoint", "evaluation"):
            trouble()
    time.sleep(0.3 if KIND == "slow" and rank == BAD else 0.1)
    if KIND == "long" and step % 16 == 0: time.sleep(3)
    optimizer.zero_grad()
    model(torch.ones(4, 8)).sum().backward()
    optimizer.step()
    if rank == 0 and step % 40 == 39:
        torch.save({"step": step + 1, "model": model.state_dict()}, f"{FOLDER}/saved.pt")
print("began at", int(begin), flush=True)
open("/dev/termination-log", "w").write(str(int(begin)))
"""
HANGS = ("stopped", "loop", "elsewhere", "network")
NO_HANGS = ("slow", "checkpoint", "evaluation", "first", "long")
BAD = 1


def training(kind: str, ranks: int = 3, **annotations: str) -> dict[str, Any]:
    # The first process of a container cannot be stopped from within.
    command = ["sh", "-c", '/usr/bin/python3 -c "$0" "$@"; exit $?', TRAIN, kind, str(BAD)]
    limits = {"hang-floor": str(FLOOR), "hang-first": str(FIRST)}
    notes = {"progress": "torch", "hang": "restart"} | limits | annotations
    return role("worker", ranks, pod=pod(command, image=TRAINING, preset="pytorch", **notes))


def begins(frameworks: Frameworks, name: str) -> list[str]:
    """Return at which step each rank has begun the last time."""
    ends = [task["attemptStatus"]["completionStatus"]["pod"]["containers"] for task in frameworks.tasks(name).values()]
    return [one["message"] for containers in ends for one in containers if one["name"] == "main"]


def processes_of(pod_name: str) -> Iterator[Path]:
    """Yield the processes of a Pod, as folders of /proc."""
    variable = f"HOSTNAME={pod_name}".encode()
    for one in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if one.name.isdigit() and variable in (one / "environ").read_bytes().split(b"\0"):
                yield one


def has_saved(pod_name: str) -> None:
    """Check that the Pod has saved a checkpoint."""
    assert any((one / "root/mnt/frameworkprogress/saved.pt").exists() for one in processes_of(pod_name))


class Cut:
    """All traffic of a Pod but its own loopback is dropped, in its network namespace, until it is restored."""

    def __init__(self, pod_name: str) -> None:
        # Held open: the process by which it is found may end first, as that of a container which is restarted does.
        self._namespace = eventually(lambda: self._find(pod_name))

    def _find(self, pod_name: str) -> IO[bytes]:
        for one in processes_of(pod_name):
            with contextlib.suppress(OSError):
                return (one / "ns/net").open("rb")
        raise LookupError(pod_name)

    def drop(self) -> None:
        self._nft(
            "table inet cut {\nchain input { type filter hook input priority 0; iif != lo drop; }\n"
            "chain output { type filter hook output priority 0; oif != lo drop; }\n}"
        )

    def restore(self) -> None:
        self._nft("delete table inet cut")
        self._namespace.close()

    def _nft(self, rules: str) -> None:
        number = self._namespace.fileno()
        command = ["nsenter", f"--net=/proc/self/fd/{number}", "nft", "-f", "-"]
        subprocess.run(command, input=f"{rules}\n", text=True, check=True, pass_fds=[number])


@pytest.mark.usefixtures("training_image")
def test_a_gang_that_hangs_trains_on_in_its_pods(frameworks: Frameworks) -> None:
    frameworks.create("fw", training("elsewhere", restart="in-place"))
    status = frameworks.wait("fw", "Completed", 180)
    assert status["attemptStatus"]["completionStatus"]["code"] == 0, status["attemptStatus"]
    assert [one["reason"] for one in status["attemptStatus"]["lastGangRestarts"]] == ["Hung"]
    (culprit,) = status["hangs"]["last"]["culprits"]
    assert (culprit["task"], culprit["stack"][0].split()[-1]) == (f"worker-{BAD}", "trouble"), culprit
    assert FLOOR <= status["hangs"]["last"]["silent"] <= status["hangs"]["last"]["limit"] + 10
    assert set(begins(frameworks, "fw")) == {"160"}
    assert status["ledger"]["total"]["hung"] >= FLOOR
