"""How a cluster ends: its processes, what is mounted, its folder."""

from __future__ import annotations

import re
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

from localcluster.depth import Depth
from localcluster.errors import LocalClusterError

if TYPE_CHECKING:
    from localcluster.context import Context
    from localcluster.process import Processes

_TRIES = 3


def stop(context: Context) -> None:
    """Stop everything of a cluster; all of it is tried before the first failure is raised."""
    failure: Exception | None = None
    if context.depth is Depth.NODE:
        from localcluster import node

        try:
            node.stop(context)
        except (LocalClusterError, OSError) as error:
            failure = error
    stop_processes(context.processes)
    if failure is not None:
        raise failure


def stop_processes(processes: Processes) -> None:
    """Stop all processes of a cluster, the last started first, and what they forked."""
    # Without grace: the data goes away with them, and the API server would wait for its watchers.
    for name in reversed(processes.names()):
        processes.stop(name, grace_seconds=0)
    processes.stop_strays(grace_seconds=0)


def remove_folder(state: Path) -> None:
    """Remove the folder of a cluster whose processes are gone.

    Raises:
        LocalClusterError: Something is mounted in it.
    """
    # A tree with a mount in it must never be removed: what would go is the mounted content.
    mounts = mounts_below(state)
    if mounts:
        raise LocalClusterError(f"{state} is not removed, because this is still mounted there: {', '.join(mounts)}")
    for attempt in range(_TRIES):
        try:
            shutil.rmtree(state)
            break
        except OSError:
            # A process that was killed may have made a file while the tree was being removed.
            if attempt == _TRIES - 1:
                raise
            time.sleep(0.2)


def mounts_below(folder: Path, table: str | None = None) -> list[str]:
    """The mount points at or below a folder, deepest first.

    Args:
        folder: The folder.
        table: The text of /proc/self/mountinfo; None means the present one.
    """
    lines = (table if table is not None else Path("/proc/self/mountinfo").read_text()).splitlines()
    # Field 5 is the mount point, without symbolic links, with \040 for a space (proc(5)).
    points = [re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), line.split()[4]) for line in lines]
    return sorted((point for point in points if Path(point).is_relative_to(folder.resolve())), reverse=True)
