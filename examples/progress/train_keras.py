"""Learn a line with Keras; a callback says after each batch how far the program is, and what the loss was."""

import json
import os
from pathlib import Path

import keras
import numpy as np

PROGRESS = Path(os.environ.get("FB_PROGRESS", os.devnull))


class Progress(keras.callbacks.Callback):
    """Writes the file of the barrier."""

    step = 0

    def on_train_batch_end(self, _batch: int, logs: dict[str, float] | None = None) -> None:
        """Write one more step than before."""
        self.step += 1
        PROGRESS.write_text(json.dumps({"step": self.step, "numbers": logs or {}}) + "\n")


random = np.random.default_rng(0)
x = random.uniform(-1, 1, (6400, 1))
y = 3 * x - 1 + random.normal(0, 0.1, x.shape)
model = keras.Sequential([keras.layers.Dense(1)])
model.compile(optimizer=keras.optimizers.SGD(0.03), loss="mse")
model.fit(x, y, batch_size=64, epochs=5, verbose=2, callbacks=[Progress()])
slope, offset = (float(each.squeeze()) for each in model.get_weights())
assert abs(slope - 3) < 0.1 > abs(offset + 1), (slope, offset)
print(f"found y = {slope:.2f} x + {offset:.2f}")
