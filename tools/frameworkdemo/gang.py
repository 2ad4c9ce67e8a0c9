"""The gang of the demo, by `frameworkctl`: submit and watch, and after a failure what tells why.

Meanwhile the demo looks for what would never end by itself.
"""

import contextlib
import subprocess
import time
from pathlib import Path

import yaml

from frameworkclient import Client, ClientError, NotFoundError
from frameworkclient.cli.exits import ExitCode
from frameworkdemo import manifests
from frameworkdemo.cluster import GONE_SECONDS, Cluster, Manifest
from frameworkdemo.commands import Frameworkctl
from frameworkdemo.deploy import IMAGE_SECONDS, LOG_TAIL, MissingImages
from frameworkdemo.errors import FAILURES, DemoError
from frameworkdemo.manifests import ImageNames
from frameworkdemo.steps import Steps
from localcluster.progress import task

LOOK_SECONDS = 1.0


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
