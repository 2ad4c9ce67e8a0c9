"""Learn a line with PaddlePaddle in collective mode; DataParallel averages the gradients of all processes."""

import socket

import paddle
import paddle.distributed as dist

STEPS, BATCH = 200, 64


def main() -> None:
    """Train, and fail unless the line was found and all processes agree on it."""
    dist.init_parallel_env()
    rank, size = dist.get_rank(), dist.get_world_size()
    print(f"rank {rank} of {size} on {socket.gethostname()}, PaddlePaddle {paddle.__version__}", flush=True)

    paddle.seed(rank)
    line = paddle.nn.Linear(1, 1)
    model = paddle.DataParallel(line)
    optimizer = paddle.optimizer.SGD(0.1, parameters=line.parameters())
    for step in range(1, STEPS + 1):
        x = paddle.rand([BATCH, 1]) * 2 - 1
        loss = paddle.nn.functional.mse_loss(model(x), 3 * x - 1 + paddle.randn([BATCH, 1]) * 0.1)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        if rank == 0 and step % 50 == 0:
            print(f"step {step}/{STEPS} loss {loss.item():.4f}", flush=True)

    mine = paddle.concat([line.weight.flatten(), line.bias])
    # Every process saw other points: equal results come from the averaged gradients.
    found: list[paddle.Tensor] = []
    dist.all_gather(found, mine)
    assert len({tuple(each.tolist()) for each in found}) == 1, found
    slope, offset = mine.tolist()
    assert abs(slope - 3) < 0.1 > abs(offset + 1), (slope, offset)
    if rank == 0:
        print(f"all {size} processes found y = {slope:.2f} x + {offset:.2f}", flush=True)


if __name__ == "__main__":
    main()
