"""A new control plane for a benchmark, with the Framework definition, the controller's permissions and a namespace."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

import localcluster
from localcluster.client import RawClient
from testkit.frameworks import apply_definition, apply_permissions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from localcluster import Cluster, Depth

# With a hundred thousand Pods an API server needs more than localcluster gives it, and collects garbage all the time.
_API_SERVER_MEMORY = "8GiB"


@contextlib.contextmanager
def new_cluster(name: str, depth: Depth, namespace: str) -> Iterator[tuple[Cluster, RawClient]]:
    """Make a cluster for the block, in the place of one of this name; the value is the cluster and a client of it."""
    os.environ.setdefault("GOMEMLIMIT", _API_SERVER_MEMORY)
    localcluster.down(name)
    try:
        cluster = localcluster.up(name, depth)
        with contextlib.closing(RawClient(cluster)) as raw:
            apply_definition(raw)
            apply_permissions(cluster)
            raw.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
            yield cluster, raw
    finally:
        localcluster.down(name)
