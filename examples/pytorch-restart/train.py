"""Train with checkpoints: whenever the gang starts again, all ranks go on from the last one."""

import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

STEPS, EVERY, BATCH, SECONDS = 300, 25, 64, 0.1
CHECKPOINT = Path("/checkpoints/last.pt")


def main() -> None:
    """Train from the last checkpoint on, and fail unless the line was found in the end."""
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(rank)
    line, done = torch.nn.Linear(1, 1), 0
    if CHECKPOINT.exists():
        # Nobody writes it meanwhile: the first step needs all ranks.
        saved = torch.load(CHECKPOINT)
        line.load_state_dict(saved["model"])
        done = saved["step"]
        print(f"rank {rank} of {size} goes on after step {done}, loss {saved['loss']:.4f}", flush=True)
    else:
        print(f"rank {rank} of {size} begins", flush=True)

    model = DistributedDataParallel(line)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03)
    for step in range(done + 1, STEPS + 1):
        x = torch.rand(BATCH, 1) * 2 - 1
        loss = torch.nn.functional.mse_loss(model(x), 3 * x - 1 + torch.randn(BATCH, 1) * 0.1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0 and step % EVERY == 0:
            # The name appears only when the checkpoint is complete: the rank may be killed at any time.
            new = CHECKPOINT.with_suffix(".new")
            torch.save({"step": step, "loss": loss.item(), "model": line.state_dict()}, new)
            new.replace(CHECKPOINT)
            print(f"checkpoint of step {step}, loss {loss.item():.4f}", flush=True)
        time.sleep(SECONDS)

    slope, offset = (value.item() for value in line.parameters())
    assert abs(slope - 3) < 0.1 > abs(offset + 1), (slope, offset)
    print(f"{size} ranks found y = {slope:.2f} x + {offset:.2f}", flush=True)
    # Nobody ends before all have: a rank that has succeeded cannot start again.
    dist.barrier()


if __name__ == "__main__":
    main()
