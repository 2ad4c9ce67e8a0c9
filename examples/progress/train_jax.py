"""Learn a line with JAX; one line says after each step how far the program is."""

import os
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

STEPS, BATCH = 200, 64
PROGRESS = Path(os.environ.get("FB_PROGRESS", os.devnull))


@jax.jit
def train(weights: jax.Array, x: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the weights after a step, and the loss before it."""
    value, gradient = jax.value_and_grad(lambda w: jnp.mean((w[0] * x + w[1] - y) ** 2))(weights)
    return weights - 0.1 * gradient, value


random, weights = np.random.default_rng(0), jnp.zeros(2)
for step in range(1, STEPS + 1):
    x = random.uniform(-1, 1, BATCH)
    weights, loss = train(weights, x, 3 * x - 1 + random.normal(0, 0.1, BATCH))
    # `float` waits for the device: JAX returns before the step is done.
    PROGRESS.write_text(f'{{"step": {step}, "numbers": {{"loss": {float(loss):.4f}}}}}\n')

slope, offset = (float(each) for each in weights)
assert abs(slope - 3) < 0.1 > abs(offset + 1), (slope, offset)
print(f"found y = {slope:.2f} x + {offset:.2f}")
