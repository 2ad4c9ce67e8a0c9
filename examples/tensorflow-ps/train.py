"""Learn a line by ParameterServerStrategy: ps and workers serve, the chief coordinates and hands out checkpoints."""

import functools
import http.server
import json
import os
import tempfile
import threading
from pathlib import Path

import numpy as np
import tensorflow as tf

STEPS, BATCH, CHECKPOINTS = 300, 64, 3
PORT = 8080


def serve(cluster: tf.train.ClusterSpec, job: str, index: int) -> None:
    """Be a parameter server or a worker until the Pod is ended."""
    server = tf.distribute.Server(cluster, job_name=job, task_index=index, protocol="grpc")
    print(f"{job}-{index} serves", flush=True)
    server.join()


class Files(http.server.SimpleHTTPRequestHandler):
    """Serves the folder of the checkpoints and notes when the evaluator has said that it is done."""

    done = threading.Event()

    def do_POST(self) -> None:
        """Take the word of the evaluator."""
        self.done.set()
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Write nothing."""


def coordinate(resolver: tf.distribute.cluster_resolver.ClusterResolver) -> None:
    """Train, and serve checkpoints to the evaluator, which has no volume in common with the chief."""
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        line = tf.Variable([0.0, 0.0])
    folder = tempfile.mkdtemp()
    handler = functools.partial(Files, directory=folder)
    threading.Thread(target=http.server.HTTPServer(("", PORT), handler).serve_forever, daemon=True).start()

    def learn() -> None:
        x = tf.random.uniform([BATCH], -1, 1)
        y = 3 * x - 1 + tf.random.normal([BATCH], stddev=0.1)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((line[0] * x + line[1] - y) ** 2)
        line.assign_sub(0.1 * tape.gradient(loss, line))

    @tf.function
    def step() -> None:
        strategy.run(learn)

    for number in range(1, CHECKPOINTS + 1):
        for _ in range(STEPS // CHECKPOINTS):
            coordinator.schedule(step)
        coordinator.join()
        done, values = number * STEPS // CHECKPOINTS, line.numpy()
        # The name appears only when the checkpoint is complete.
        np.save(f"{folder}/new.npy", values)
        Path(f"{folder}/new.npy").replace(f"{folder}/step-{done}.npy")
        print(f"step {done}: y = {values[0]:.2f} x + {values[1]:.2f}", flush=True)
    assert Files.done.wait(120), "the evaluator has not said that it is done"
    print("the evaluator is done", flush=True)


def main() -> None:
    """Do what TF_CONFIG says that this Task does."""
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    task = json.loads(os.environ["TF_CONFIG"])["task"]
    if task["type"] == "chief":
        coordinate(resolver)
    else:
        serve(resolver.cluster_spec(), task["type"], task["index"])


if __name__ == "__main__":
    main()
