"""The node's namespaces, which keep its mounts, network and processes apart from the machine's, as in a container.

All processes of a node run below one init process in a PID namespace. When the init process ends, however it ends, the
kernel kills all processes of the namespace, and mounts, interfaces and rules go with the last of them. To stop a node
is therefore to end one process, whatever crashed before; only cgroups have to be removed explicitly.

kubelet and containerd know some folders by fixed names (paths of sockets must be short, and a machine may have a
kubelet of its own). Within the node's mount namespace, folders of the cluster are mounted over these.
"""

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from localcluster.context import Context
from localcluster.errors import LocalClusterError
from localcluster.processes.process import Identity, identify, terminate

NAME = "node"
VOLUMES = "/var/local/volumes"
"""A folder of the node for PersistentVolumes of the type `local`; it goes with the cluster."""
_OVERLAID = ("/run/containerd", "/var/lib/kubelet", "/var/log/pods", "/var/log/containers", VOLUMES)
_MANIFESTS = Path(__file__).parents[1] / "manifests"
_CGROUPS = Path("/sys/fs/cgroup")
_TASKS = "run/containerd/io.containerd.runtime.v2.task"
"""Where containerd has a folder for each container that it has not deleted: k8s.io/ID, also the path of its cgroup."""
_SECONDS = 60.0


def filled(manifest: str, **values: str | Path) -> str:
    """Return the text of a file of `manifests/`, with each value in the place of its `@NAME@`."""
    text = (_MANIFESTS / manifest).read_text()
    for name, value in values.items():
        text = text.replace(f"@{name}@", str(value))
    return text


def start(context: Context) -> int:
    """Make the namespaces, or find those that exist, and return the PID of their init process on this machine."""
    folder = context.state / NAME
    folder.mkdir(exist_ok=True)
    command = ["unshare", "--mount", "--propagation", "private", "--net", "--pid", "--fork", "--kill-child", "--"]
    command += ["bash", "-euc", filled("init.sh"), "bash", str(folder), *_OVERLAID]
    context.processes.start(NAME, command, ready=lambda: init(context) is not None)
    found = init(context)
    assert found is not None
    return found.pid


def init(context: Context) -> Identity | None:
    """Return the init process of the node; None if the node does not run."""
    parent = context.processes.running(NAME)
    with contextlib.suppress(OSError, ValueError, psutil.Error):
        found = identify(int((context.state / NAME / "init").read_text()))
        if parent is not None and found is not None and psutil.Process(found.pid).ppid() == parent:
            return found
    return None


def inside(init_pid: int) -> list[str]:
    """Return the prefix for a command that shall run on the node; the kernel kills the command with this process."""
    enter = ["nsenter", "--target", str(init_pid), "--mount", "--net", "--pid", "--"]
    return [*enter, "setpriv", "--pdeathsig", "KILL", "--"]


def stop(context: Context) -> None:
    """End the processes of the node and remove the cgroups of its containers, if there are any.

    Raises:
        LocalClusterError: A process survived SIGKILL, or a cgroup could not be removed.
    """
    found = init(context)
    if found is not None:
        # The kernel ends it after every other process of the namespace is dead.
        terminate(found, 0)
    context.processes.stop(NAME, grace_seconds=0)
    # runc removes the cgroup of a container that it deletes; it could not delete those that ran until now.
    tasks = context.state / NAME / _TASKS
    deadline = time.monotonic() + _SECONDS
    for task in tasks.glob("*/*"):
        _remove_cgroups(str(task.relative_to(tasks)), deadline)


def _remove_cgroups(name: str, deadline: float) -> None:
    """Remove the cgroup of that name and its descendants, in the hierarchy of version 2 or in all of version 1."""
    while left := [path for path in _cgroups(name) if not _removed(path)]:
        if time.monotonic() > deadline:
            raise LocalClusterError(f"the cgroup {left[0]} cannot be removed; processes in it: {_members(left[0])}")
        time.sleep(0.05)


def _cgroups(name: str) -> Iterator[Path]:
    roots = [_CGROUPS / name, *(path / name for path in _CGROUPS.iterdir() if path.is_dir() and not path.is_symlink())]
    for root in roots:
        if root.is_dir():
            # Children first, as rmdir wants it.
            yield from (Path(folder) for folder, _, _ in os.walk(root, topdown=False))


def _removed(cgroup: Path) -> bool:
    try:
        cgroup.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _members(cgroup: Path) -> str:
    with contextlib.suppress(OSError):
        return " ".join((cgroup / "cgroup.procs").read_text().split()) or "none"
    return "unknown"
