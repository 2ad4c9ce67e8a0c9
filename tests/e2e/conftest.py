"""Fixtures of the end-to-end suites: a real node, and the programs from their images and manifests."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from frameworkdemo import cluster as access
from frameworkdemo import deploy, manifests
from localcluster import images
from localcluster.frameworks import Frameworks

if TYPE_CHECKING:
    from localcluster import Cluster
    from localcluster.client import RawClient

PROGRAMS = ("barrier", "controller", "injector")


@pytest.fixture(scope="session")
def cluster(node_cluster: Cluster) -> Cluster:
    """The cluster with a real node, for all other fixtures."""
    return node_cluster


@pytest.fixture(scope="session")
def installed(cluster: Cluster) -> None:
    """The three programs, built, loaded, deployed with their manifests, and ready."""
    archives = images.build_all(PROGRAMS)
    for archive in archives.values():
        cluster.load(archive)
    deploy.deploy(
        access.connect(os.fspath(cluster.kubeconfig), None), manifests.programs(manifests.ImageNames()), print
    )


@pytest.fixture
def frameworks(raw: RawClient, namespace: str, installed: None) -> Frameworks:
    """The Frameworks of the test's namespace."""
    return Frameworks(raw, namespace)
