"""Processes of this machine as /proc shows them: which process has a PID, whether it is alive, and how to stop it."""

import contextlib
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from localcluster.errors import LocalClusterError

STATE_VARIABLE = "LOCALCLUSTER_STATE"
"""The environment variable that says which cluster a process belongs to."""
_KILL_SECONDS = 60.0


@dataclass(frozen=True)
class Identity:
    """What distinguishes a process from every other one, also from a later one with the same PID."""

    pid: int
    """In the PID namespace of this process."""
    started: int
    """The clock ticks from boot to its start: field 22 of /proc/PID/stat (proc(5))."""
    boot: str
    """The kernel's boot id; a PID file of an earlier boot matches no process."""


def boot_id() -> str:
    """Return the random id of this boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def identify(pid: int) -> Identity | None:
    """Return the identity of the process with this PID; None if there is none, or only a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command may contain spaces and parentheses, so fields are counted from the last parenthesis: state is field 3,
    # num_threads field 20, starttime field 22 (proc(5)).
    fields = stat.rpartition(")")[2].split()
    # A main thread that has ended is a zombie while other threads still hold files and ports.
    is_gone = fields[0] == "X" or (fields[0] == "Z" and int(fields[17]) <= 1)
    return None if is_gone else Identity(pid, int(fields[19]), boot_id())


def is_alive(identity: Identity) -> bool:
    """Report whether this process still runs; a zombie does not."""
    return identify(identity.pid) == identity


def processes_of(state: Path) -> list[Identity]:
    """Return the processes whose environment names this state folder, as far as this user may read it."""
    marker = f"{STATE_VARIABLE}={state}".encode()
    found: list[Identity] = []
    for folder in Path("/proc").glob("[0-9]*"):
        # Its identity first: if another process gets the PID meanwhile, the identity is that of none.
        identity = identify(int(folder.name))
        with contextlib.suppress(OSError):
            if identity is not None and marker in (folder / "environ").read_bytes().split(b"\0"):
                found.append(identity)
    return found


def terminate(identity: Identity, grace_seconds: float) -> bool:
    """Send SIGTERM, then SIGKILL after the grace period (0: SIGKILL at once), and wait until the process is gone.

    The result is False if it was gone before.

    Raises:
        LocalClusterError: The process survived SIGKILL for a minute.
    """
    if not is_alive(identity):
        reap(identity.pid)
        return False
    steps = ((signal.SIGTERM, grace_seconds), (signal.SIGKILL, _KILL_SECONDS))
    for number, patience in steps if grace_seconds > 0 else steps[1:]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(identity.pid, number)
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            reap(identity.pid)
            if not is_alive(identity):
                return True
            time.sleep(0.01)
    raise LocalClusterError(
        f"process {identity.pid} survived SIGKILL for {_KILL_SECONDS:g} s: it is blocked in the kernel;"
        " try again when it is gone"
    )


def reap(pid: int) -> int | None:
    """Collect and return the exit status of a child process; None if it still runs or is not a child of ours."""
    with contextlib.suppress(ChildProcessError):
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
    return None
