"""Learn a line with PyTorch; gradients are averaged by MPI's allreduce, as Horovod does it."""

import socket

import torch
from mpi4py import MPI

STEPS, BATCH = 200, 64


def main() -> None:
    """Train, and fail unless the line was found and all ranks agree on it."""
    world = MPI.COMM_WORLD
    print(f"rank {world.rank} of {world.size} on {socket.gethostname()}, PyTorch {torch.__version__}", flush=True)
    torch.manual_seed(world.rank)
    line = torch.nn.Linear(1, 1)
    # All ranks start with the weights of rank 0.
    for value in line.parameters():
        world.Bcast(value.data.numpy())
    optimizer = torch.optim.SGD(line.parameters(), lr=0.1)
    for step in range(1, STEPS + 1):
        x = torch.rand(BATCH, 1) * 2 - 1
        loss = torch.nn.functional.mse_loss(line(x), 3 * x - 1 + torch.randn(BATCH, 1) * 0.1)
        optimizer.zero_grad()
        loss.backward()
        for value in line.parameters():
            assert value.grad is not None
            world.Allreduce(MPI.IN_PLACE, value.grad.numpy(), MPI.SUM)
            value.grad /= world.size
        optimizer.step()
        if world.rank == 0 and step % 50 == 0:
            print(f"step {step}/{STEPS} loss {loss.item():.4f}", flush=True)

    slope, offset = (value.item() for value in line.parameters())
    # Every rank saw other points: equal results come from the averaged gradients.
    found = world.allgather((slope, offset))
    assert len(set(found)) == 1, found
    assert abs(slope - 3) < 0.1 > abs(offset + 1), (slope, offset)
    if world.rank == 0:
        print(f"all {world.size} ranks found y = {slope:.2f} x + {offset:.2f}", flush=True)


if __name__ == "__main__":
    main()
