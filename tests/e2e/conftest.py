"""Everything for real: a node, the three programs from their images and manifests, Pods that run."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from demo import cluster as access
from demo import deploy, manifests
from localcluster import images
from support.frameworks import Frameworks

if TYPE_CHECKING:
    from localcluster import Cluster
    from support.raw import Raw

PROGRAMS = ("barrier", "controller", "injector")


@pytest.fixture(scope="session")
def cluster(node_cluster: Cluster) -> Cluster:
    """What the other fixtures are about, here: the cluster with a real node."""
    return node_cluster


@pytest.fixture(scope="session")
def installed(cluster: Cluster) -> None:
    """The three programs, built, loaded and deployed as their manifests say, and ready."""
    archives = images.build_all(PROGRAMS)
    for archive in archives.values():
        cluster.load(archive)
    deploy.deploy(access.connect(os.fspath(cluster.kubeconfig), None), manifests.programs(manifests.Naming()), print)


@pytest.fixture
def frameworks(raw: Raw, namespace: str, installed: None) -> Frameworks:
    """The Frameworks of the test's namespace."""
    return Frameworks(raw, namespace)
