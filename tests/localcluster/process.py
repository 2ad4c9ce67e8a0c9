"""The processes of a cluster: started detached, known by PID and start time, stopped for sure.

Every component (etcd, the API server, containerd, the kubelet ...) is started through `Processes`, so that all of
them behave alike:

- they outlive the Python process that started them, in a session of their own, with their output in
  `<state>/<name>.log`;
- `<state>/<name>.pid` holds the PID *and* the start time that /proc reports, so a PID that the kernel gave to somebody
  else is never signalled;
- their environment carries `LOCALCLUSTER_STATE=<state>`, so `strays()` finds what a crash left without a PID file
  (helpers that they forked included).
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from localcluster.errors import LocalClusterError, StartError
from localcluster.logs import relevant_tail

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

STATE_VARIABLE = "LOCALCLUSTER_STATE"
POLL_SECONDS = 0.05


@dataclass(frozen=True)
class Identity:
    """A process as the kernel tells it apart from every other one of this boot.

    Attributes:
        pid: Process id, in the PID namespace of this process.
        started: Clock ticks from boot to its start: field 22 of /proc/PID/stat (proc(5)).
        boot: The kernel's boot id; a PID file of an earlier boot names nobody.
    """

    pid: int
    started: int
    boot: str


@dataclass(frozen=True)
class Record:
    """What a PID file holds: who runs, and as what it was started."""

    identity: Identity
    argv: tuple[str, ...]


@dataclass(frozen=True)
class Processes:
    """The supervisor of one cluster's processes; every method takes the component's name.

    Attributes:
        state: The folder of PID and log files.
    """

    state: Path

    def pid_file(self, name: str) -> Path:
        """The file that says who runs as `name`."""
        return self.state / f"{name}.pid"

    def log_file(self, name: str) -> Path:
        """The file with the output of every process started as `name`."""
        return self.state / f"{name}.log"

    def running(self, name: str) -> int | None:
        """The PID of `name` if it runs now, else None."""
        record = self._record(name)
        return record.identity.pid if record and is_alive(record.identity) else None

    def names(self) -> list[str]:
        """The names that have a PID file, dead or alive, oldest first (the order of starting)."""
        files = sorted(self.state.glob("*.pid"), key=lambda file: file.stat().st_mtime_ns)
        return [file.stem for file in files]

    def start(
        self,
        name: str,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        ready: Callable[[], bool | str],
        timeout_seconds: float,
    ) -> int:
        """Start a process and wait until it is ready; whichever comes first of ready, exited and timeout decides.

        It is idempotent: a process that runs already with the same arguments is kept if it becomes ready in time; one
        that runs with other arguments, or that does not answer any more, is stopped and started anew.

        Args:
            name: The component's name, also of its PID and log files.
            argv: The command; its first word is a path or is looked up in PATH.
            env: Its whole environment; None means a copy of this process's.
            cwd: Its working directory; None means the state folder.
            ready: Asked 20 times a second; True ends the wait, False or a text (why not yet, shown after a timeout)
                goes on. What it raises of OSError counts as not ready.
            timeout_seconds: Time from the start until it has to be ready.

        Returns:
            The PID.

        Raises:
            StartError: It exited or its time ran out (then it is stopped); the text shows the lines of its log that
                matter.
        """
        record = self._record(name)
        if record and is_alive(record.identity):
            same = record.argv == tuple(argv)
            if same:
                with contextlib.suppress(StartError):
                    self._wait(name, record.identity, ready, timeout_seconds)
                    return record.identity.pid
            # One that does not answer will not answer SIGTERM either.
            self.stop(name, grace_seconds=1.0 if same else 10.0)
        offset = self._log_size(name)
        identity = self._spawn(name, argv, env, cwd)
        try:
            self._wait(name, identity, ready, timeout_seconds, offset)
        except StartError:
            self.stop(name)
            raise
        return identity.pid

    def stop(self, name: str, *, grace_seconds: float = 10.0) -> bool:
        """Stop `name`: SIGTERM, then SIGKILL when the grace is over (0: SIGKILL at once), and forget its PID file.

        Returns:
            Whether a process had to be stopped. False if none ran, which is no error.

        Raises:
            LocalClusterError: It survived SIGKILL for 10 seconds (it hangs in the kernel).
        """
        record = self._record(name)
        ran = record is not None and terminate(record.identity, grace_seconds)
        self.pid_file(name).unlink(missing_ok=True)
        return ran

    def strays(self) -> list[Identity]:
        """Processes of this cluster that have no PID file: what a crash left, and helpers that components forked.

        They are recognised by `LOCALCLUSTER_STATE` in their environment, which they inherited from a component.
        """
        recorded = {record.identity for name in self.names() if (record := self._record(name))}
        return [identity for identity in processes_of(self.state) if identity not in recorded]

    def stop_strays(self, *, grace_seconds: float = 2.0) -> int:
        """Stop everything that `strays` finds; the number of processes that were stopped."""
        return sum(terminate(identity, grace_seconds) for identity in self.strays())

    def tail(self, name: str, lines: int = 20) -> str:
        """The last lines of the log of `name` that matter: errors first of all."""
        return relevant_tail(self.log_file(name), 0, lines)

    # The rest is private: spawning, waiting, the PID file.

    def _spawn(self, name: str, argv: Sequence[str], env: Mapping[str, str] | None, cwd: Path | None) -> Identity:
        program = shutil.which(argv[0])
        if program is None:
            raise LocalClusterError(f"{name}: {argv[0]} is not installed or not executable")
        self.state.mkdir(parents=True, exist_ok=True)
        environment = {**(os.environ if env is None else env), STATE_VARIABLE: str(self.state)}
        # posix_spawn has no working directory; env(1) changes it and then becomes the program, under the same PID.
        command = [shutil.which("env") or "/usr/bin/env", "-C", str(cwd or self.state), program, *argv[1:]]
        append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        # Not subprocess.Popen: its object complains when it is collected while the child runs, which is the point here.
        pid = os.posix_spawn(
            command[0],
            command,
            environment,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, str(self.log_file(name)), append, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
            setsigdef=[signal.SIGPIPE, signal.SIGINT],
        )
        identity = identify(pid) or Identity(pid, 0, boot_id())
        temporary = self.pid_file(name).with_suffix(".pid.new")
        temporary.write_text(json.dumps({**asdict(identity), "argv": list(argv)}))
        temporary.replace(self.pid_file(name))
        return identity

    def _wait(
        self, name: str, identity: Identity, ready: Callable[[], bool | str], timeout_seconds: float, offset: int = 0
    ) -> None:
        deadline = time.monotonic() + timeout_seconds
        answer: bool | str = False
        while True:
            if not is_alive(identity):
                exit_code = reap(identity.pid)
                reason = "exited" if exit_code is None else f"exited with {describe_exit(exit_code)}"
                raise self._failure(name, f"{reason} before it was ready", offset)
            try:
                answer = ready()
            except OSError as error:
                answer = str(error)
            if answer is True:
                return
            if time.monotonic() >= deadline:
                why = f" ({answer})" if answer else ""
                raise self._failure(name, f"was not ready after {timeout_seconds:g} s{why}", offset)
            time.sleep(POLL_SECONDS)

    def _failure(self, name: str, reason: str, offset: int) -> StartError:
        log = self.log_file(name)
        return StartError(name, reason, log, relevant_tail(log, offset))

    def _log_size(self, name: str) -> int:
        log = self.log_file(name)
        return log.stat().st_size if log.exists() else 0

    def _record(self, name: str) -> Record | None:
        try:
            content = json.loads(self.pid_file(name).read_text())
            return Record(Identity(content["pid"], content["started"], content["boot"]), tuple(content["argv"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None


def boot_id() -> str:
    """The id that the kernel drew at this boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def identify(pid: int) -> Identity | None:
    """Who has this PID now; None if nobody has, or only a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command may hold spaces and parentheses, so the fields are counted from its last one: state is field 3,
    # num_threads field 20, starttime field 22 (proc(5)).
    fields = stat.rpartition(")")[2].split()
    # A first thread that ended is a zombie while others still hold the files and the ports.
    is_gone = fields[0] == "X" or (fields[0] == "Z" and int(fields[17]) <= 1)
    return None if is_gone else Identity(pid, int(fields[19]), boot_id())


def is_alive(identity: Identity) -> bool:
    """Whether this very process still runs (a zombie does not)."""
    return identify(identity.pid) == identity


def processes_of(state: Path) -> list[Identity]:
    """All processes that this user may read and whose environment says that they belong to this state folder."""
    marker = f"{STATE_VARIABLE}={state}".encode()
    return [identity for identity, environment in _environments() if marker in environment.split(b"\0")]


def terminate(identity: Identity, grace_seconds: float) -> bool:
    """SIGTERM, then SIGKILL after the grace (0: SIGKILL at once), and wait until it is gone.

    Returns:
        Whether it had to be stopped; False if it was gone before.

    Raises:
        LocalClusterError: It survived SIGKILL for 10 seconds.
    """
    if not is_alive(identity):
        reap(identity.pid)
        return False
    steps = ((signal.SIGTERM, grace_seconds), (signal.SIGKILL, 10.0))
    for number, patience in steps if grace_seconds > 0 else steps[1:]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(identity.pid, number)
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            reap(identity.pid)
            if not is_alive(identity):
                return True
            time.sleep(0.01)
    raise LocalClusterError(f"process {identity.pid} survived SIGKILL for 10 s")


def reap(pid: int) -> int | None:
    """Collect the exit status of a child that ended; None if it is not ours or still runs."""
    with contextlib.suppress(ChildProcessError):
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
    return None


def describe_exit(code: int) -> str:
    """An exit status in words: `code 1`, or `signal SIGKILL`."""
    return f"code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"


def _environments() -> Iterator[tuple[Identity, bytes]]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            identity = identify(int(folder.name))
            with contextlib.suppress(OSError):
                environment = (folder / "environ").read_bytes()
                if identity is not None:
                    yield identity, environment
