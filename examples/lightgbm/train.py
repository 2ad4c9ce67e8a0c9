"""Boost trees on rows that are spread over the workers, which find each other by a list of all of them."""

import hashlib
import os

import lightgbm as lgb
import numpy as np

ROWS, ROUNDS = 4000, 30


def rows(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return points of a square, and whether each is inside a ring."""
    points = np.random.default_rng(seed).uniform(-1, 1, (ROWS, 2))
    radius = np.hypot(points[:, 0], points[:, 1])
    return points, (radius > 0.4) & (radius < 0.8)


def main() -> None:
    """Train on one side of the diagonal, and fail unless the model knows the other sides, too."""
    machines = os.environ["LIGHTGBM_MACHINES"].split(",")
    index, size = int(os.environ["FC_TASK_INDEX"]), len(machines)
    print(f"worker {index} of {size} at {machines[index]}, LightGBM {lgb.__version__}", flush=True)
    parameters = {
        # Nobody listens yet when the gate opens: LightGBM tries again until it has found all of them.
        "machines": ",".join(machines),
        "num_machines": int(os.environ["LIGHTGBM_NUM_MACHINES"]),
        "local_listen_port": int(os.environ["LIGHTGBM_LOCAL_LISTEN_PORT"]),
        "tree_learner": "data",
        "pre_partition": True,
        "objective": "binary",
        "num_threads": 1,
        "verbosity": -1,
    }
    points, labels = rows(seed=index)
    # What this worker has seen: a strip along the diagonal.
    strip = np.minimum((points.sum(axis=1) + 2) / 4 * size, size - 1).astype(int)
    mine = strip == index
    model = lgb.train(parameters, lgb.Dataset(points[mine], labels[mine]), ROUNDS)

    new_points, new_labels = rows(seed=1000)
    wrong = float(np.mean((model.predict(new_points) > 0.5) != new_labels))
    trees = model.model_to_string().split("parameters:")[0]
    print(f"{mine.sum()} rows here; model {hashlib.sha256(trees.encode()).hexdigest()[:8]}", flush=True)
    assert wrong < 0.05, wrong
    print(f"the model is wrong on {wrong:.1%} of new rows of the whole square", flush=True)


if __name__ == "__main__":
    main()
