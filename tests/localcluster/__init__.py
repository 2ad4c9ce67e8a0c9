"""A real Kubernetes on this machine, for tests, benchmarks and the demo: real binaries, never an imitation.

`up` starts one of three depths and is idempotent; several clusters run side by side under their own names.
`python -m localcluster` is the same as commands.
"""

from localcluster.cluster import Cluster, Status, down, get, status, up
from localcluster.context import Context, Network
from localcluster.depth import Depth
from localcluster.errors import BinaryError, LocalClusterError, SetupError, StartError

__all__ = [
    "BinaryError",
    "Cluster",
    "Context",
    "Depth",
    "LocalClusterError",
    "Network",
    "SetupError",
    "StartError",
    "Status",
    "down",
    "get",
    "status",
    "up",
]
