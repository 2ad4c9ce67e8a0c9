"""Train with as many members as there are: torchrun starts this program again whenever one goes or comes.

The training ends after some steps with all three of them, so it shows every change, however busy the machine is.
"""

import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

MEMBERS, STEPS, BATCH, SECONDS = 3, 100, 64, 0.1
STATE = Path("/tmp/state.pt")


def newest_state(model: torch.nn.Module) -> int:
    """Load the newest state that any member has, and return its step; a new member has none."""
    mine = torch.load(STATE) if STATE.exists() else {"step": 0, "model": model.state_dict()}
    steps = [torch.zeros(1, dtype=torch.int64) for _ in range(dist.get_world_size())]
    dist.all_gather(steps, torch.tensor([mine["step"]]))
    newest = max(range(len(steps)), key=lambda rank: int(steps[rank]))
    states = [mine]
    dist.broadcast_object_list(states, src=newest)
    model.load_state_dict(states[0]["model"])
    return int(steps[newest])


def main() -> None:
    """Train from the newest state on, and fail unless the line was found in the end."""
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    line = torch.nn.Linear(1, 1)
    first = newest_state(line) + 1
    restarts = os.environ["TORCHELASTIC_RESTART_COUNT"]
    print(f"{size} members from step {first} on; I have rank {rank} and {restarts} restarts", flush=True)

    torch.manual_seed(rank + 1000 * first)
    model = DistributedDataParallel(line)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    last = first + STEPS - 1 if size == MEMBERS else sys.maxsize
    for step in range(first, last + 1):
        x = torch.rand(BATCH, 1) * 2 - 1
        loss = torch.nn.functional.mse_loss(model(x), 3 * x - 1 + torch.randn(BATCH, 1) * 0.1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        # The name appears only when the state is complete: a member may be killed at any time.
        torch.save({"step": step, "model": line.state_dict()}, STATE.with_suffix(".new"))
        STATE.with_suffix(".new").replace(STATE)
        if step % 50 == 0:
            print(f"step {step} with {size} members, loss {loss.item():.4f}", flush=True)
        time.sleep(SECONDS)

    slope, offset = (value.item() for value in line.parameters())
    assert abs(slope - 3) < 0.1 > abs(offset + 1), (slope, offset)
    print(f"{size} members found y = {slope:.2f} x + {offset:.2f}", flush=True)


if __name__ == "__main__":
    main()
