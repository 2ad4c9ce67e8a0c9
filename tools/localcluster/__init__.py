"""A real Kubernetes on this machine, for tests, benchmarks and the demo.

The components are the real binaries; there is no imitation of the API server. `up` starts a cluster of one of three
depths and is idempotent. Clusters with different names run side by side. `python -m localcluster` offers the same
operations as commands.
"""

from localcluster.cluster.cluster import Cluster, down, get, up
from localcluster.context import Depth
from localcluster.errors import BinaryError, LocalClusterError, SetupError, StartError

__all__ = ["BinaryError", "Cluster", "Depth", "LocalClusterError", "SetupError", "StartError", "down", "get", "up"]
