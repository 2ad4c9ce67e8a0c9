"""The gang of the demo, by `frameworkctl`: submit and watch, and after a failure what tells why.

Meanwhile the demo looks for what would never end by itself.
"""

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import yaml

from frameworkclient import Client, ClientError, NotFoundError
from frameworkclient.cli.exits import ExitCode
from frameworkdemo import manifests
from frameworkdemo.cluster import GONE_SECONDS, Cluster, Manifest
from frameworkdemo.deploy import IMAGE_SECONDS, LOG_TAIL, MissingImages
from frameworkdemo.errors import FAILURES, DemoError
from frameworkdemo.manifests import ImageNames
from frameworkdemo.steps import Steps
from localcluster.progress import task

LOOK_SECONDS = 1.0
_OWN_END_SECONDS = 2.0
_END_SECONDS = 5.0


class Frameworkctl:
    """`frameworkctl` as a user types it: each command is shown, runs as a program, and has the terminal.

    It is for one cluster and namespace; `show` takes the line of each command.
    """

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
    # Whoever runs the demo in the background may have made its children ignore Ctrl-C.
    for seconds, number in ((_OWN_END_SECONDS, signal.SIGINT), (_END_SECONDS, signal.SIGKILL)):
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
            return
        process.send_signal(number)


class Gang:
    """One run of a Framework, in a namespace that exists when `run` is called."""

    def __init__(self, cluster: Cluster, namespace: str, steps: Steps, image_seconds: float = IMAGE_SECONDS) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._steps = steps
        self._ctl = Frameworkctl(cluster, namespace, steps.write)
        self._images = MissingImages(image_seconds)

    def run(self, file: Path, image_names: ImageNames, seconds: float) -> None:
        """Submit a Framework and watch it until it has succeeded; after a failure or the seconds, show what tells why.

        Raises:
            DemoError: It did not succeed; the text says why.
            ClientError: A previous run of it could not be removed.
        """
        framework = manifests.framework(image_names, file)
        name = framework["metadata"]["name"]
        with self._cluster.client(self._namespace) as client:
            with task("remove the previous run"), contextlib.suppress(NotFoundError):
                client.delete(name, wait=True, timeout=GONE_SECONDS)
            self._ctl.show_environment()
            self._submit(framework, file)
            try:
                self._watch(client, name, seconds)
            except FAILURES:
                for command in (["why"], ["describe"], ["events"], ["logs", f"--tail={LOG_TAIL}"]):
                    self._ctl.run(*command, name)
                raise

    def _submit(self, framework: Manifest, file: Path) -> None:
        is_as_in_file = framework == manifests.framework(manifests.ImageNames(), file)
        source, text = (_shown(file), "") if is_as_in_file else ("-", yaml.safe_dump(framework))
        if self._ctl.run("submit", "-f", source, text=text) != ExitCode.DONE:
            raise DemoError(f"{framework['metadata']['name']} could not be submitted, see above")

    def _watch(self, client: Client, name: str, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        with self._ctl.running("watch", name) as watching:
            while watching.poll() is None:
                # What keeps the demo from looking keeps `watch` from watching, which says so.
                with contextlib.suppress(ClientError):
                    self._look(client, name)
                if time.monotonic() > deadline:
                    raise DemoError(f"{name} was not Completed within {seconds:.0f} s, see above")
                with contextlib.suppress(subprocess.TimeoutExpired):
                    watching.wait(LOOK_SECONDS)
        if watching.returncode == ExitCode.FAILED and (result := client.get(name).result):
            raise DemoError(f"{name}: Completed, {result.phrase} ({result.code}): {result.diagnostics}")
        if watching.returncode != ExitCode.DONE:
            raise DemoError(f"`frameworkctl watch` has ended with exit code {watching.returncode}, see above")

    def _look(self, client: Client, name: str) -> None:
        """Look for what holds the gang up for good."""
        pods = client.pods(name)
        if any(pod.lacks_barrier for pod in pods):
            raise DemoError(
                "the Pods have the label, but no barrier was injected: see the log of the injector and its webhook"
            )
        self._images.check(pods, time.monotonic())


def _shown(file: Path) -> str:
    return str(file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file)
