"""`frameworkctl` as a user types it: each command is shown, runs as a program, and has the terminal."""

import contextlib
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

from frameworkdemo.cluster import Cluster

_OWN_END_SECONDS = 2.0
_END_SECONDS = 5.0


class Frameworkctl:
    """The command line for one cluster and namespace; `show` takes the line of each command."""

    def __init__(self, cluster: Cluster, namespace: str, show: Callable[[str], None]) -> None:
        self._flags = ["-n", namespace, *(["--context", cluster.context] if cluster.context else [])]
        self._environ = {"KUBECONFIG": cluster.kubeconfig} if cluster.kubeconfig else {}
        self._show = show

    def show_environment(self) -> None:
        """Show the variables that a user has to set for the same commands."""
        for name, value in self._environ.items():
            self._show(f"$ export {name}={shlex.quote(value)}")

    def run(self, *words: str, text: str = "") -> int:
        """Run a command, with a text or else this program's standard input, to its end; return its exit code."""
        with self.running(*words, text=text) as process:
            process.communicate(text or None)
        return process.returncode

    @contextlib.contextmanager
    def running(self, *words: str, text: str = "") -> Iterator[subprocess.Popen[str]]:
        """Run a command while the block runs; see `run`. At the end of the block it is ended, if it still runs."""
        command = [*words, *self._flags]
        self._show(f"$ frameworkctl {shlex.join(command)}")
        stdin = subprocess.PIPE if text else None
        program = [sys.executable, "-m", "frameworkclient", *command]
        with subprocess.Popen(program, stdin=stdin, text=True, env=os.environ | self._environ) as process:
            try:
                yield process
            finally:
                _end(process)


def _end(process: subprocess.Popen[str]) -> None:
    """End a program as Ctrl-C does, so that it leaves the terminal in order; the terminal may have done so already."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_OWN_END_SECONDS)
        return
    process.send_signal(signal.SIGINT)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_END_SECONDS)
        return
    # Whoever runs the demo in the background may have made its children ignore Ctrl-C.
    process.kill()
