"""Learn a line with Accelerate: it finds the other processes, shares the batches out and averages the gradients."""

import socket

import accelerate
import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, TensorDataset

POINTS, EPOCHS, BATCH = 2000, 5, 32


def main() -> None:
    """Train, and fail unless the line was found and all processes agree on it."""
    accelerator = Accelerator()
    rank, size = accelerator.process_index, accelerator.num_processes
    print(f"process {rank} of {size} on {socket.gethostname()}, Accelerate {accelerate.__version__}", flush=True)

    # All processes have the same points and begin with the same weights; the loader gives each of them other batches.
    set_seed(7)
    x = torch.rand(POINTS, 1) * 2 - 1
    line = torch.nn.Linear(1, 1)
    points = DataLoader(TensorDataset(x, 3 * x - 1 + torch.randn(POINTS, 1) * 0.1), batch_size=BATCH, shuffle=True)
    model, optimizer, mine = accelerator.prepare(line, torch.optim.SGD(line.parameters(), lr=0.1), points)
    assert len(mine) * size <= len(points) + size, (len(mine), len(points))
    for epoch in range(1, EPOCHS + 1):
        for inputs, targets in mine:
            loss = torch.nn.functional.mse_loss(model(inputs), targets)
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
        total = accelerator.reduce(loss.detach(), reduction="mean")
        if accelerator.is_main_process:
            print(f"epoch {epoch}/{EPOCHS}: {len(mine)} batches each, loss {total.item():.4f}", flush=True)

    slope, offset = (value.item() for value in line.parameters())
    found = accelerator.gather(torch.tensor([[slope, offset]]))
    assert all(torch.equal(each, found[0]) for each in found), found
    assert abs(slope - 3) < 0.1 > abs(offset + 1), (slope, offset)
    if accelerator.is_main_process:
        print(f"all {size} processes found y = {slope:.2f} x + {offset:.2f}", flush=True)
    # Keeps the tensors until gloo's threads have let go of them: who does so last needs Python, which is about to end.
    accelerator.wait_for_everyone()


if __name__ == "__main__":
    main()
