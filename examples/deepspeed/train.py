"""Learn a line with DeepSpeed's engine; it averages the gradients of all processes."""

import argparse
import socket
import sys

import deepspeed
import torch
import torch.distributed as dist

STEPS, BATCH = 200, 64


def main() -> None:
    """Train, and fail unless the line was found and all processes agree on it."""
    options = argparse.ArgumentParser()
    options.add_argument("--local_rank", type=int)
    arguments = deepspeed.add_config_arguments(options).parse_args()

    deepspeed.utils.logger.setLevel("WARNING")
    # The operator for shared memory would be compiled now, and the image has no compiler: gloo does without it.
    sys.modules["deepspeed.comm.torch"].build_shm_op = lambda: None  # type: ignore[attr-defined]
    deepspeed.init_distributed(dist_backend="gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    print(f"rank {rank} of {size} on {socket.gethostname()}, DeepSpeed {deepspeed.__version__}", flush=True)

    torch.manual_seed(rank)
    line = torch.nn.Linear(1, 1)
    engine, *_ = deepspeed.initialize(args=arguments, model=line, model_parameters=line.parameters())
    for step in range(1, STEPS + 1):
        x = torch.rand(BATCH, 1) * 2 - 1
        loss = torch.nn.functional.mse_loss(engine(x), 3 * x - 1 + torch.randn(BATCH, 1) * 0.1)
        engine.backward(loss)
        engine.step()
        if rank == 0 and step % 50 == 0:
            print(f"step {step}/{STEPS} loss {loss.item():.4f}", flush=True)

    slope, offset = (value.item() for value in line.parameters())
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
