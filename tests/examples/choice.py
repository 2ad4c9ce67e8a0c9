"""Which examples run with every change, and why CI runs some presets only elsewhere or not at all."""

from __future__ import annotations

KINDS = {
    "training": ("accelerate", "deepspeed", "lightgbm", "mpi-torch", "xgboost"),
    "a cluster in a Framework": ("dask",),
    "stateless service": ("nginx",),
    "stateful service": ("etcd",),
    "batch": ("mapreduce", "service-and-batch"),
    "life cycle": ("prestart-poststop",),
    "wrapper": ("wrapper",),
    "other schedulers": ("hived",),
}
"""The examples of CI by kind: of each kind one at least, and the shortest that together have the presets.

They use only images that other tests of CI load, too, and `tools`.
"""

IN_CI = frozenset(name for names in KINDS.values() for name in names)
"""All others are marked `long`."""

OTHER_TESTS = {
    "jax": "tests/e2e/test_applications.py",
    "mpi": "tests/e2e/test_applications.py",
    "tensorflow": "tests/e2e/test_demo.py",
}
"""Presets that another test of CI runs on the node."""

ONLY_LONG = {
    "kafka": "its image has 460 MB, and its three servers, one of which is killed, run for a minute",
    "paddle": "its image has a gigabyte, for this preset alone",
    "ray": "its image has 300 MB, and each of its four nodes starts a handful of processes",
    "spark": "its image has 500 MB, and its JVMs start one after another for half a minute",
}
"""Presets that only `make test-all` runs, and why."""
