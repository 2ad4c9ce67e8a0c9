"""Which examples run with every change, and which presets no example runs."""

from __future__ import annotations

KINDS = {
    "training": ("accelerate", "jax", "lightgbm", "mpi", "mpi-torch", "pytorch", "xgboost"),
    "a cluster in a Framework": ("dask",),
    "stateless service": ("nginx",),
    "stateful service": ("etcd",),
    "batch": ("mapreduce", "service-and-batch", "sweep"),
    "life cycle": ("retries",),
    "wrapper": ("wrapper",),
    "other schedulers": ("hived",),
}
"""The examples of CI by kind: of each kind the short ones, and of several that show the same the shortest."""

IN_CI = frozenset(name for names in KINDS.values() for name in names)
"""All others are marked `long`."""

ONLY_LONG = {
    "deepspeed": "its import alone takes half a minute on two cores",
    "ray": "its image has a gigabyte, and its nodes start a dozen processes each",
    "spark": "its image is large, and five JVMs start one after another",
    "tensorflow": "the tests of the demo run it with every change",
}
"""Presets that only `long` examples run, and why."""

NOT_RUN = {
    "paddle": "its wheel of 195 MB would need an image of its own",
}
"""Presets that no example runs, and why; `tests/barrier` compares what they write with what the programs read."""
