"""Find the peers as in a step of Slurm, and add up over all of them what each has; nothing here knows Kubernetes."""

import os

import jax
from jax.experimental import multihost_utils

TERMS = 100_000


def main() -> None:
    """Compute pi by the terms of Leibniz that are this task's, and fail unless all have the same sum."""
    # By itself JAX takes the first cluster of a list that it finds, and Kubernetes is on it, too.
    jax.distributed.initialize(cluster_detection_method="slurm")
    me, size = jax.process_index(), jax.process_count()
    node, nodes = os.environ["SLURMD_NODENAME"], os.environ["SLURM_STEP_NODELIST"].split(",")
    assert (me, size, node) == (int(os.environ["SLURM_PROCID"]), len(nodes), nodes[me])
    print(f"task {me} of {size} on {node}, job {os.environ['SLURM_JOB_ID']}, JAX {jax.__version__}", flush=True)

    mine = sum((-1) ** term * 4 / (2 * term + 1) for term in range(me, TERMS, size))
    total = float(multihost_utils.process_allgather(jax.numpy.array([mine])).sum())
    assert abs(total - 3.14158) < 0.0001, total
    print(f"all {size} tasks found {total:.4f}", flush=True)


if __name__ == "__main__":
    main()
