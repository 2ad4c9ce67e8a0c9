"""Train with checkpoints; not one line is about progress, which the barrier finds out by itself."""

import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

STEPS, EVERY, BATCH = int(os.environ.get("STEPS", "1000")), 50, 64
CHECKPOINT = Path(os.environ.get("CHECKPOINT", "/checkpoints/last.pt"))

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
line, done = torch.nn.Linear(1, 1), 0
if CHECKPOINT.exists():
    saved = torch.load(CHECKPOINT)
    line.load_state_dict(saved["model"])
    done = saved["step"]
model = DistributedDataParallel(line)
optimizer = torch.optim.SGD(model.parameters(), lr=0.03)
print(f"rank {rank} of {dist.get_world_size()} begins after step {done}", flush=True)
for step in range(done + 1, STEPS + 1):
    x = torch.rand(BATCH, 1) * 2 - 1
    loss = torch.nn.functional.mse_loss(model(x), 3 * x - 1 + torch.randn(BATCH, 1) * 0.1)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if rank == 0 and step % EVERY == 0:
        # The name appears only when the checkpoint is complete: the rank may be killed at any time.
        new = CHECKPOINT.with_suffix(".new")
        torch.save({"step": step, "model": line.state_dict()}, new)
        new.replace(CHECKPOINT)
        print(f"checkpoint of step {step}, loss {loss.item():.4f}", flush=True)
    time.sleep(0.1)
dist.barrier()
