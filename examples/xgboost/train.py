"""Boost trees on rows that are spread over the workers; the role tracker brings the workers together."""

import os

import numpy as np
import xgboost as xgb
from xgboost import collective
from xgboost.tracker import RabitTracker

ROWS, ROUNDS = 4000, 20


def track(host: str, port: int, workers: int) -> None:
    """Be the tracker, until all workers have said goodbye."""
    tracker = RabitTracker(n_workers=workers, host_ip=host, port=port, sortby="task")
    tracker.start()
    print(f"tracker of {workers} workers on {host}:{port}", flush=True)
    tracker.wait_for()
    print("all workers are done", flush=True)


def rows(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return points of a square, and whether each is inside a ring."""
    points = np.random.default_rng(seed).uniform(-1, 1, (ROWS, 2))
    radius = np.hypot(points[:, 0], points[:, 1])
    return points, (radius > 0.4) & (radius < 0.8)


def train(host: str, port: int, task: str) -> None:
    """Train on the rows of this worker, and fail unless the model is good on those of all others, too."""
    # The tracker may need a while until it listens.
    where = {"dmlc_tracker_uri": host, "dmlc_tracker_port": port, "dmlc_task_id": task, "dmlc_retry": 10}
    with collective.CommunicatorContext(**where):
        rank, size = collective.get_rank(), collective.get_world_size()
        print(f"worker {rank} of {size} has {ROWS} rows, XGBoost {xgb.__version__}", flush=True)
        points, labels = rows(seed=int(task))
        data = xgb.DMatrix(points, labels)
        parameters = {"objective": "binary:logistic", "max_depth": 4, "eta": 0.5, "eval_metric": "error", "nthread": 1}
        model = xgb.train(parameters, data, ROUNDS, evals=[(data, "train")], verbose_eval=5)

        new_points, new_labels = rows(seed=1000)
        wrong = float(np.mean((model.predict(xgb.DMatrix(new_points)) > 0.5) != new_labels))
        models = collective.allreduce(np.array([wrong]), collective.Op.MAX)
        assert wrong == models[0], "the workers have different models"
        assert wrong < 0.05, wrong
        if rank == 0:
            print(f"all {size} workers have the same model, which is wrong on {wrong:.1%} of new rows", flush=True)


def main() -> None:
    """Be a worker if this Task has a rank, otherwise the tracker."""
    host, port = os.environ["DMLC_TRACKER_URI"], int(os.environ["DMLC_TRACKER_PORT"])
    if task := os.environ.get("DMLC_TASK_ID"):
        train(host, port, task)
    else:
        track(host, port, int(os.environ["DMLC_NUM_WORKER"]))


if __name__ == "__main__":
    main()
