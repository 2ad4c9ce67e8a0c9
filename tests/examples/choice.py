"""Which examples run with every change, and why CI runs some presets only elsewhere or not at all."""

from frameworkbarrier.presets import model as presets
from frameworkdemo.examples import catalogue

KINDS = {
    "training": ("mpi-torch",),
    "stateless service": ("nginx",),
    "batch": ("mapreduce", "service-and-batch"),
    "life cycle": ("prestart-poststop",),
    "wrapper": ("wrapper",),
    "other schedulers": ("hived",),
}
"""The examples of CI by kind: of each kind one at least, beside those of the presets."""

OTHER_TESTS = {
    "jax": "tests/e2e/gangs/test_exit.py",
    "mpi": "tests/e2e/examples/test_applications.py",
    "pytorch": "tests/e2e/examples/test_applications.py",
    "tensorflow": "tests/e2e/demo/test_demo.py",
}
"""Presets that another test of CI runs on the node."""

ONLY_LONG = {
    "kafka": "its image has 460 MB, and its three servers, one of which is killed, run for a minute",
    "paddle": "its image has a gigabyte, for this preset alone",
    "ray": "its image has 300 MB, and each of its four nodes starts a handful of processes",
    "spark": "its image has 500 MB, and its JVMs start one after another for half a minute",
}
"""Presets that only `make test-all` runs, and why."""

_LOADED = {"training", "tools"}
"""Images of examples that other tests of CI load, too."""


def _of_presets() -> set[str]:
    """Return the examples that are named after a preset, and that need no other image."""
    named = (set(presets.names()) - OTHER_TESTS.keys()) & set(catalogue.names())
    return {name for name in named if _LOADED.issuperset(catalogue.images_of([catalogue.folder_of(name)]))}


IN_CI = {name for names in KINDS.values() for name in names} | _of_presets()
"""All others are marked `long`."""
