"""Train with checkpoints: whenever the gang starts again, chief and workers go on from the last one."""

import json
import os
import tempfile
import time

import tensorflow as tf

STEPS, EVERY, BATCH, SECONDS = 300, 25, 64, 0.1
CHECKPOINTS = "/checkpoints"


def main() -> None:
    """Train from the last checkpoint on, and fail unless the line was found in the end."""
    task = json.loads(os.environ["TF_CONFIG"])["task"]
    chief, name = task["type"] == "chief", f"{task['type']}-{task['index']}"
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        line, done, last_loss = tf.Variable([0.0, 0.0]), tf.Variable(0), tf.Variable(0.0)
    checkpoint = tf.train.Checkpoint(line=line, done=done, loss=last_loss)
    # All of them save, because variables may be spread over them; what the workers write is of no use.
    folder = CHECKPOINTS if chief else tempfile.mkdtemp()
    manager = tf.train.CheckpointManager(checkpoint, folder, max_to_keep=2)
    # Nobody writes meanwhile: the first step needs all of them.
    if (last := tf.train.latest_checkpoint(CHECKPOINTS)) is not None:
        checkpoint.restore(last).assert_consumed()
        print(f"{name} goes on after step {int(done.numpy())}, loss {float(last_loss.numpy()):.4f}", flush=True)
    else:
        print(f"{name} begins, one of {strategy.num_replicas_in_sync}", flush=True)

    def learn(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((line[0] * x + line[1] - y) ** 2)
        gradient = tape.gradient(loss, line)
        (mean,) = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.MEAN, [gradient])
        line.assign_sub(0.03 * mean)
        return loss

    @tf.function
    def step(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        return strategy.reduce(tf.distribute.ReduceOp.MEAN, strategy.run(learn, args=(x, y)), axis=None)

    for number in range(int(done.numpy()) + 1, STEPS + 1):
        x = tf.random.uniform([BATCH], -1, 1)
        loss = step(x, 3 * x - 1 + tf.random.normal([BATCH], stddev=0.1))
        if number % EVERY == 0:
            done.assign(number)
            last_loss.assign(loss)
            manager.save()
            if chief:
                print(f"checkpoint of step {number}, loss {float(loss):.4f}", flush=True)
        time.sleep(SECONDS)

    slope, offset = line.numpy()
    assert abs(slope - 3) < 0.1 > abs(offset + 1), (slope, offset)
    print(f"{name} found y = {slope:.2f} x + {offset:.2f}", flush=True)


if __name__ == "__main__":
    main()
