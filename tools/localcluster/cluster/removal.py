"""The end of a cluster: its processes, its node, its folder. `cluster.down` and `cluster.up` call it."""

import re
import shutil
from pathlib import Path

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_fixed

from localcluster.context import Context, Depth
from localcluster.errors import LocalClusterError
from localcluster.node import node
from localcluster.processes.supervisor import Supervisor


def stop(context: Context) -> None:
    """Stop a cluster: first its node, then all processes, even if the node cannot be stopped.

    Raises:
        LocalClusterError, OSError: Something survived or could not be removed.
    """
    try:
        if context.depth is Depth.NODE:
            node.stop(context)
    finally:
        stop_processes(context.processes)


def stop_processes(processes: Supervisor) -> None:
    """Stop all processes of a cluster, the last started first, and then the orphans that they forked."""
    # Without a grace period: the data is thrown away, and the API server would wait for its watchers.
    for name in reversed(processes.names()):
        processes.stop(name, grace_seconds=0)
    processes.stop_orphans(grace_seconds=0)


def remove_folder(state: Path) -> None:
    """Remove the folder of a cluster whose processes are gone; LocalClusterError if something is mounted below it."""
    # Removing a tree with a mount in it would remove the mounted content.
    mounts = mounts_below(state)
    if mounts:
        raise LocalClusterError(
            f"{state} is not removed, because file systems are mounted there:"
            f" unmount {', '.join(mounts)}, then try again"
        )
    # A dying process may make a file while the tree is being removed.
    again, last, pause = retry_if_exception_type(OSError), stop_after_attempt(3), wait_fixed(0.2)
    Retrying(retry=again, stop=last, wait=pause, reraise=True)(shutil.rmtree, state)


def mounts_below(folder: Path, table: str | None = None) -> list[str]:
    """Return the mount points at or below a folder, deepest first, by the text of a /proc/self/mountinfo."""
    lines = (table if table is not None else Path("/proc/self/mountinfo").read_text()).splitlines()
    # Field 5 is the mount point, without symbolic links, with \040 for a space (proc(5)).
    points = [re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), line.split()[4]) for line in lines]
    return sorted((point for point in points if Path(point).is_relative_to(folder.resolve())), reverse=True)
