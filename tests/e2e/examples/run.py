"""The examples as tests: which file has which of them, and one run."""

from collections.abc import Iterable
from typing import Any

import pytest

from frameworkdemo.cluster import local_cluster
from frameworkdemo.examples import catalogue
from frameworkdemo.examples.run import AS_EXPECTED, run
from localcluster import Cluster
from localcluster.images import images
from tests.e2e.pods import TRAINING
from tests.examples import choice


def of_training() -> list[Any]:
    """The parameters of those that use the shared image of training, which takes long to load."""
    return _parameters(name for name in catalogue.names() if TRAINING in _images(name))


def others() -> list[Any]:
    """The parameters of all others."""
    return _parameters(name for name in catalogue.names() if TRAINING not in _images(name))


def ends_as_expected(name: str, cluster: Cluster) -> None:
    """Load the images of an example and run it; it leaves nothing."""
    for archive in images.build_all(_images(name)).values():
        cluster.load(archive)
    outcome = run(local_cluster(cluster), catalogue.folder_of(name))
    print(outcome)
    assert outcome.result == AS_EXPECTED
    assert f"example-{name}" not in cluster.kubectl("get", "namespaces", "--output=name")


def _images(name: str) -> list[str]:
    return catalogue.images_of([catalogue.folder_of(name)])


def _parameters(names: Iterable[str]) -> list[Any]:
    return [pytest.param(name, marks=() if name in choice.IN_CI else pytest.mark.long) for name in names]
