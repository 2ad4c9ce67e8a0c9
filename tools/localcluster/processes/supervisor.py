"""The supervisor of a cluster's processes. `controlplane`, `kwok`, `node` and their helpers start components with it.

It promises three things about every component (etcd, the API server, containerd, the kubelet ...):

- the component outlives the Python process that started it, in a session of its own, with its output in
  `<state>/<name>.log`;
- `<state>/<name>.pid` holds its PID and its start time as /proc reports it, so that a process that got the same PID
  later is never signalled;
- its environment, and that of processes that it forks, has `LOCALCLUSTER_STATE=<state>`, so that `orphans` finds
  processes that a crash left without a PID file.
"""

import contextlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from signal import Signals

from localcluster.errors import LocalClusterError, StartError
from localcluster.processes import process
from localcluster.processes.logs import relevant_tail
from localcluster.processes.process import Identity

POLL_SECONDS = 0.05
_START_SECONDS = 240.0


@dataclass(frozen=True)
class Supervisor:
    """The processes of one cluster, by the folder of PID and log files; methods take the name of a component."""

    state: Path

    def pid_file(self, name: str) -> Path:
        """Return the path of a component's PID file."""
        return self.state / f"{name}.pid"

    def log_file(self, name: str) -> Path:
        """Return the path of a component's log, the output of all its processes."""
        return self.state / f"{name}.log"

    def running(self, name: str) -> int | None:
        """Return the PID of a component; None if it does not run."""
        identity, _ = self._recorded(name)
        return identity.pid if identity and process.is_alive(identity) else None

    def names(self) -> list[str]:
        """Return the names of the components that have a PID file, dead or alive, in the order of starting."""
        files = sorted(self.state.glob("*.pid"), key=lambda file: file.stat().st_mtime_ns)
        return [file.stem for file in files]

    def start(
        self,
        name: str,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        ready: Callable[[], bool | str],
        timeout_seconds: float = _START_SECONDS,
    ) -> int:
        """Start a component, and return its PID when it is ready.

        The call is idempotent. A process that already runs with the same arguments is kept if it is ready in time; one
        with other arguments, or one that is not ready in time, is stopped and started again.

        Args:
            name: The name of the component, and of its PID and log files.
            argv: The command; its first word is a path or is looked up in PATH.
            env: Its whole environment; None means a copy of this process's.
            ready: Called 20 times a second. True ends the wait; False, an OSError, or a text that says why not, which
                is shown after a timeout, continue it.
            timeout_seconds: The time from the start until the component has to be ready.

        Raises:
            StartError: The process exited, or was not ready in time and was stopped; the text shows the end of its log.
            LocalClusterError: The program is not installed.
        """
        running, command = self._recorded(name)
        if running and process.is_alive(running):
            same = command == list(argv)
            if same:
                with contextlib.suppress(StartError):
                    self._wait(name, running, ready, timeout_seconds)
                    return running.pid
            # A process that does not answer its probe will hardly react to SIGTERM.
            self.stop(name, grace_seconds=1.0 if same else 10.0)
        log = self.log_file(name)
        offset = log.stat().st_size if log.exists() else 0
        identity = self._spawn(name, argv, env)
        try:
            self._wait(name, identity, ready, timeout_seconds, offset)
        except StartError:
            self.stop(name)
            raise
        return identity.pid

    def stop(self, name: str, *, grace_seconds: float = 10.0) -> bool:
        """Stop a component, and remove its PID file; return whether it ran. See `process.terminate`."""
        identity, _ = self._recorded(name)
        ran = identity is not None and process.terminate(identity, grace_seconds)
        self.pid_file(name).unlink(missing_ok=True)
        return ran

    def orphans(self) -> list[Identity]:
        """Return the processes of this cluster that have no PID file: leftovers of a crash, and forks of components.

        `LOCALCLUSTER_STATE` in their environment, inherited from a component, identifies them.
        """
        recorded = {self._recorded(name)[0] for name in self.names()}
        return [identity for identity in process.processes_of(self.state) if identity not in recorded]

    def stop_orphans(self, *, grace_seconds: float = 2.0) -> int:
        """Stop all orphans and return their number."""
        return sum(process.terminate(identity, grace_seconds) for identity in self.orphans())

    def _spawn(self, name: str, argv: Sequence[str], env: Mapping[str, str] | None) -> Identity:
        program = shutil.which(argv[0])
        if program is None:
            raise LocalClusterError(f"{name}: {argv[0]} is not installed or not executable: install it or adapt PATH")
        self.state.mkdir(parents=True, exist_ok=True)
        self.log_file(name).touch(0o600)
        # A shell that runs this process in the background makes it ignore SIGINT; a component and its Pods shall not.
        command = ["env", "--default-signal=INT", program, *argv[1:]]
        with self.log_file(name).open("ab") as log:
            child = subprocess.Popen(
                command,
                cwd=self.state,
                env={**(os.environ if env is None else env), process.STATE_VARIABLE: str(self.state)},
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        # It shall outlive this object, which warns of that if it knows no exit code. `reap` collects the real one.
        child.returncode = 0
        identity = process.identify(child.pid) or Identity(child.pid, 0, process.boot_id())
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
            if not process.is_alive(identity):
                code = process.reap(identity.pid)
                how = (
                    "" if code is None else f" with code {code}" if code >= 0 else f" with signal {Signals(-code).name}"
                )
                raise self._failure(name, f"exited{how} before it was ready", offset)
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

    def _recorded(self, name: str) -> tuple[Identity | None, list[str]]:
        try:
            content = json.loads(self.pid_file(name).read_text())
            return Identity(content["pid"], content["started"], content["boot"]), content["argv"]
        except (OSError, ValueError, KeyError, TypeError):
            return None, []
