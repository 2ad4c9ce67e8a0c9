"""The life of a cluster: up and down. Each can be repeated, also after an earlier run has crashed.

The command line, the fixtures of the tests, the benchmarks and the demo call this module. Changes of one cluster hold
its lock, so that processes do not start or stop the same cluster at the same time.
"""

import contextlib
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from localcluster.client import RawClient
from localcluster.cluster import controlplane, kwok, removal, settings
from localcluster.context import Context, Depth, Settings
from localcluster.errors import LocalClusterError, SetupError, StartError
from localcluster.node import containerd, node
from localcluster.processes import ports
from localcluster.processes.process import boot_id
from localcluster.processes.supervisor import Supervisor
from localcluster.programs import binaries
from localcluster.progress import task

_PORT_IS_TAKEN = "address already in use"
_TRIES = 3


@dataclass(frozen=True)
class Cluster(Context):
    """A running cluster, as its users see it."""

    def kubectl(self, *args: str, input: str | None = None) -> str:  # noqa: A002 -- as subprocess calls it
        """Run kubectl as the administrator, with an input for `-f -`, and return its standard output.

        Raises:
            LocalClusterError: kubectl failed; the text holds its standard error.
        """
        program = binaries.find("kubectl", kubernetes=self.version)
        command = [str(program), f"--kubeconfig={self.kubeconfig}", *args]
        done = subprocess.run(command, input=input, capture_output=True, text=True, check=False)
        if done.returncode:
            raise LocalClusterError(f"`kubectl {' '.join(args)}` failed: {done.stderr.strip()}")
        return done.stdout

    def token(self, namespace: str, service_account: str) -> str:
        """Return a bearer token of a service account, valid for an hour (TokenRequest)."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{service_account}/token"
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": 3600},
        }
        with contextlib.closing(RawClient(self)) as client:
            return str(client.create(path, request)["status"]["token"])

    def load(self, image_tar: Path) -> None:
        """Make the images of an archive (`docker save`, buildah's docker-archive) available to the real node.

        Images that are loaded already take milliseconds.

        Raises:
            SetupError: The cluster has no real node that runs, or the file is not such an archive.
            LocalClusterError: containerd refused the archive; the text holds containerd's message.
        """
        containerd.load(self, image_tar)

    def tag(self, image: str, other: str) -> None:
        """Give an image that was loaded a second full name, such as that of a release; see `load`."""
        containerd.tag(self, image, other)

    def down(self) -> None:
        """Stop the cluster and remove it."""
        down(self.name)


def up(
    name: str = "default", depth: Depth = Depth.CONTROL_PLANE, *, kubernetes: str | None = None, nodes: int = 5
) -> Cluster:
    """Start a cluster, or its missing components, and return when it is ready.

    Args:
        name: Clusters with different names run side by side.
        depth: How much of Kubernetes it has.
        kubernetes: The version; None means `KUBERNETES` of the environment, else the pinned one (or, for a cluster
            that exists, its own).
        nodes: The number of simulated nodes at depth kwok.

    Raises:
        SetupError: This machine does not allow it, or the running cluster of this name has another depth or version.
        BinaryError: A program could not be found, downloaded or built.
        StartError: A component did not become ready. Those that were started before it keep running, for the next `up`;
            `down` removes them.
    """
    settings.state_folder(name)
    if depth is Depth.NODE:
        require_root()
    with settings.locked(f"cluster-{name}"):
        known = _reusable(name, depth, kubernetes)
        if known is None:
            version = binaries.kubernetes_version(kubernetes)
            known = settings.create(name, depth, version, nodes=nodes)
        for attempt in range(_TRIES):
            context = _cluster(known)
            try:
                _start(context)
                break
            except StartError as error:
                # The port was free when it was chosen; another process has taken it since.
                if _PORT_IS_TAKEN not in str(error) or attempt == _TRIES - 1:
                    raise
                removal.stop(context)
                (context.state / ports.FILE).unlink(missing_ok=True)
    return _cluster(known)


def get(name: str) -> Cluster | None:
    """Return the cluster of that name if its API server is ready, else None."""
    known = settings.read(name)
    if known is None:
        return None
    found = _cluster(known)
    return found if _answers(found) else None


def down(name: str) -> None:
    """Stop a cluster and remove its processes, mounts, interfaces, namespaces and files, if there are any.

    Raises:
        LocalClusterError: Something could not be removed; the folder stays, so that `down` can be tried again.
    """
    state = settings.state_folder(name)
    with settings.locked(f"cluster-{name}") as lock:
        if state.is_dir():
            with task(f"down {name}"):
                _remove(name, state)
        lock.unlink()


def require_root() -> None:
    """Return if this user can run a real node."""
    if os.geteuid() != 0:
        raise SetupError("depth node needs root for network namespaces, mounts and cgroups: run it with sudo")


def _reusable(name: str, depth: Depth, kubernetes: str | None) -> Settings | None:
    """Return the settings of an existing cluster that fits the request; remove leftovers that cannot be continued."""
    state = settings.state_folder(name)
    if not state.is_dir():
        return None
    known = settings.read(name)
    processes = Supervisor(state)
    alive = any(processes.running(component) for component in processes.names())
    if known is not None:
        version = binaries.kubernetes_version(kubernetes) if kubernetes else known.version
        if known.boot == boot_id() and (known.depth, known.version) == (depth, version):
            return known
        if alive:
            raise SetupError(
                f"cluster {name!r} runs with depth {known.depth} and Kubernetes {known.version}, not with depth {depth}"
                f" and Kubernetes {version}: remove it with `down`, or choose another name"
            )
    with task(f"remove the leftovers of cluster {name}"):
        _remove(name, state)
    return None


def _remove(name: str, state: Path) -> None:
    known = settings.read(name)
    if known is not None:
        removal.stop(_cluster(known))
    else:
        removal.stop_processes(Supervisor(state))
    removal.remove_folder(state)


def _start(context: Context) -> None:
    controlplane.start(context)
    if context.depth is Depth.KWOK:
        kwok.start(context)
    elif context.depth is Depth.NODE:
        node.start(context)


def _answers(context: Context) -> bool:
    if not context.processes.running("kube-apiserver"):
        return False
    with contextlib.closing(RawClient(context)) as client:
        return client.check_ready() is True


def _cluster(known: Settings) -> Cluster:
    state = settings.state_folder(known.name)
    port = ports.recorded(state / ports.FILE, "kube-apiserver")
    return Cluster(**vars(known), state=state, api_port=port)
