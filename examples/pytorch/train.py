"""Learn a line through noisy points by DistributedDataParallel; torchrun has set everything that it needs to know."""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

STEPS, BATCH = 200, 64


def main() -> None:
    """Train, and fail unless the line was found and all processes agree on it."""
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    print(f"rank {rank} of {size}, local rank {os.environ['LOCAL_RANK']}, PyTorch {torch.__version__}", flush=True)

    torch.manual_seed(rank)
    model = DistributedDataParallel(torch.nn.Linear(1, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(1, STEPS + 1):
        x = torch.rand(BATCH, 1) * 2 - 1
        y = 3 * x - 1 + torch.randn(BATCH, 1) * 0.1
        loss = torch.nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0 and step % 50 == 0:
            print(f"step {step}/{STEPS} loss {loss.item():.4f}", flush=True)

    slope, offset = (value.item() for value in model.parameters())
    # Every process started with other weights and saw other points: equal results come from the averaged gradients.
    found = [torch.zeros(2) for _ in range(size)]
    mine = torch.tensor([slope, offset])
    dist.all_gather(found, mine)
    assert all(torch.equal(each, found[0]) for each in found), found
    assert abs(slope - 3) < 0.1 > abs(offset + 1), (slope, offset)
    if rank == 0:
        print(f"all {size} processes found y = {slope:.2f} x + {offset:.2f}", flush=True)
    # Keeps the tensors until gloo's threads have let go of them: who does so last needs Python, which is about to end.
    dist.barrier()


if __name__ == "__main__":
    main()
