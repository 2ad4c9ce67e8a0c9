"""One cluster, as `kubectl` and the SDK reach it."""

import shlex
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

import localcluster
from frameworkclient import Client
from frameworkdemo.errors import DemoError
from localcluster.programs import binaries

Manifest = dict[str, Any]
"""An object to send, as decoded from YAML."""

GONE_SECONDS = 300
"""The time that a deletion may take."""


@dataclass(frozen=True)
class Cluster:
    """Access to one cluster by the program `kubectl`.

    Without a kubeconfig it is that of `KUBECONFIG` or of the home folder; without a context, the current one. In the
    folder `state` is what runs for it on this machine.
    """

    program: Path
    state: Path
    kubeconfig: str | None = None
    context: str | None = None

    def kubectl(self, *arguments: str, text: str | None = None) -> str:
        """Run kubectl, with a text for `-f -`, and return its output; its error becomes a DemoError."""
        named = {"--kubeconfig": self.kubeconfig, "--context": self.context}
        flags = [f"{flag}={value}" for flag, value in named.items() if value]
        command = [str(self.program), *flags, *arguments]
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        if done.returncode:
            raise DemoError(f"`kubectl {shlex.join(arguments)}` failed: {done.stderr.strip()}")
        return done.stdout

    def apply(self, objects: Iterable[Manifest]) -> None:
        """Apply objects on the server's side, also over what others have changed in them."""
        self.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", text=yaml.safe_dump_all(objects))

    def delete(self, *arguments: str, text: str | None = None) -> None:
        """Run `kubectl delete` and return when the objects are gone; absent ones are skipped."""
        self.kubectl("delete", "--ignore-not-found", f"--timeout={GONE_SECONDS}s", *arguments, text=text)

    def client(self, namespace: str) -> Client:
        """Return the SDK's client for a namespace; ClientError if the kubeconfig has no usable credentials."""
        return Client(kubeconfig=self.kubeconfig, context=self.context, namespace=namespace)


def local_cluster(running: localcluster.Cluster) -> Cluster:
    """Return access to a local cluster."""
    program = binaries.find("kubectl", kubernetes=running.version)
    return Cluster(program, running.state, str(running.kubeconfig))
