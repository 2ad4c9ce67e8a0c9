"""Learn a line and save the model, with its signature, for those who serve it."""

import sys

import tensorflow as tf

STEPS, BATCH = 300, 64


class Line(tf.Module):
    """y = slope x + offset."""

    def __init__(self) -> None:
        """Know nothing yet."""
        super().__init__()
        self.slope, self.offset = tf.Variable(0.0), tf.Variable(0.0)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
    def predict(self, x: tf.Tensor) -> tf.Tensor:
        """Return y for each x."""
        return self.slope * x + self.offset


def main(folder: str) -> None:
    """Train, fail unless the line was found, and save it."""
    line = Line()

    @tf.function
    def step() -> tf.Tensor:
        x = tf.random.uniform([BATCH], -1, 1)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((line.predict(x) - (3 * x - 1 + tf.random.normal([BATCH], stddev=0.1))) ** 2)
        for variable, gradient in zip(line.variables, tape.gradient(loss, line.variables), strict=True):
            variable.assign_sub(0.1 * gradient)
        return loss

    for _ in range(STEPS):
        loss = step()
    slope, offset = line.slope.numpy(), line.offset.numpy()
    assert abs(slope - 3) < 0.1 > abs(offset + 1), (slope, offset)
    tf.saved_model.save(line, folder, signatures=line.predict)
    print(f"saved y = {slope:.2f} x + {offset:.2f}, loss {float(loss):.4f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
