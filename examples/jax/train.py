"""Learn a line through noisy points with the batch sharded over all processes; JAX sums the gradients itself."""

import os

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

STEPS, BATCH = 200, 64


def loss(weights: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
    """Return the mean squared error of the line."""
    return jnp.mean((weights[0] * x + weights[1] - y) ** 2)


@jax.jit
def step(weights: jax.Array, x: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the weights after a step, and the loss before it, over the batch of all processes."""
    value, gradient = jax.value_and_grad(loss)(weights, x, y)
    return weights - 0.1 * gradient, value


def main() -> None:
    """Train, and fail unless the line was found and all processes agree on it."""
    # JAX reads JAX_COORDINATOR_ADDRESS by itself; without the last argument it would ask the API server for its peers.
    jax.distributed.initialize(
        num_processes=int(os.environ["JAX_NUM_PROCESSES"]),
        process_id=int(os.environ["JAX_PROCESS_ID"]),
        cluster_detection_method="deactivate",
    )
    me, size = jax.process_index(), jax.process_count()
    print(f"process {me} of {size}, {jax.device_count()} devices, JAX {jax.__version__}", flush=True)

    mesh = Mesh(np.array(jax.devices()), ("batch",))
    by_batch, everywhere = NamedSharding(mesh, PartitionSpec("batch")), NamedSharding(mesh, PartitionSpec())
    random = np.random.default_rng(me)
    weights = jax.device_put(jnp.zeros(2), everywhere)
    for number in range(1, STEPS + 1):
        x = random.uniform(-1, 1, BATCH).astype(np.float32)
        y = (3 * x - 1 + random.normal(0, 0.1, BATCH)).astype(np.float32)
        weights, value = step(weights, *(jax.make_array_from_process_local_data(by_batch, each) for each in (x, y)))
        if me == 0 and number % 50 == 0:
            print(f"step {number}/{STEPS} loss {float(value):.4f}", flush=True)

    multihost_utils.assert_equal(np.asarray(weights), "the processes disagree")
    slope, offset = (float(each) for each in weights)
    assert abs(slope - 3) < 0.1 > abs(offset + 1), (slope, offset)
    if me == 0:
        print(f"all {size} processes found y = {slope:.2f} x + {offset:.2f}", flush=True)


if __name__ == "__main__":
    main()
