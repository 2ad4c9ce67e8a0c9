"""Learn to classify two interleaved spirals, on all Tasks of the gang at once.

The program knows nothing of Kubernetes: TensorFlow finds its peers in TF_CONFIG, which the barrier put into the
environment. Each Task makes its own slice of the data; every step averages the gradients over the network.
"""

import argparse
import datetime as dt
import json
import os

import numpy as np
import tensorflow as tf


def say(text: str) -> None:
    """Print a line with the time in UTC, unbuffered, so that it appears in the Pod's log at once."""
    print(f"{dt.datetime.now(dt.UTC):%Y-%m-%dT%H:%M:%S.%fZ}", text, flush=True)


def spirals(points: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return points on two noisy spirals, shape (points, 2), and the spiral of each, 0 or 1, shape (points, 1)."""
    random = np.random.default_rng(seed)
    label = random.integers(0, 2, points)
    along = np.sqrt(random.random(points)) * 3 * np.pi
    angle = along + np.pi * label
    xy = np.stack([np.cos(angle), np.sin(angle)], axis=1) * along[:, None] / np.pi
    return (xy + random.normal(0, 0.05, xy.shape)).astype(np.float32), label[:, None].astype(np.float32)


def main() -> None:
    """Train for a fixed number of steps; the chief prints the loss."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--steps", type=int, default=1000)
    options.add_argument("--batch", type=int, default=256, help="points per Task and step")
    arguments = options.parse_args()

    task = json.loads(os.environ["TF_CONFIG"])["task"]
    chief = task["type"] == "chief"
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    replicas = strategy.num_replicas_in_sync
    say(f"{task['type']}-{task['index']} is one of {replicas} replicas, TensorFlow {tf.__version__}")

    with strategy.scope():
        sizes = [(2, 32), (32, 32), (32, 1)]
        weights = [tf.Variable(tf.random.stateless_normal(s, seed=(7, i)) / s[0] ** 0.5) for i, s in enumerate(sizes)]
        biases = [tf.Variable(tf.zeros(size[1])) for size in sizes]
        momenta = [tf.Variable(tf.zeros_like(v)) for v in weights + biases]

    def learn(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            for w, b in zip(weights[:-1], biases[:-1], strict=True):
                x = tf.tanh(x @ w + b)
            loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(y, x @ weights[-1] + biases[-1]))
        gradients = tape.gradient(loss, weights + biases)
        gradients = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.MEAN, gradients)
        for variable, momentum, gradient in zip(weights + biases, momenta, gradients, strict=True):
            momentum.assign(0.9 * momentum + gradient)
            variable.assign_sub(0.1 * momentum)
        return loss

    @tf.function
    def step(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        return strategy.reduce(tf.distribute.ReduceOp.MEAN, strategy.run(learn, args=(x, y)), axis=None)

    for number in range(1, arguments.steps + 1):
        x, y = spirals(arguments.batch, seed=number * 1000 + task["index"] + (0 if chief else 1))
        loss = float(step(tf.constant(x), tf.constant(y)))
        if number == 1:
            say(f"training started, first loss {loss:.4f}")
        elif chief and (number % (max(1, arguments.steps // 10)) == 0 or number == arguments.steps):
            say(f"step {number}/{arguments.steps} loss {loss:.4f}")
    say("training finished")


if __name__ == "__main__":
    main()
