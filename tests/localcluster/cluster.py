"""Clusters as wholes: up, status, down. Each is safe to repeat, and after a crash of an earlier run too."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from localcluster import binaries, controlplane, kwok, removal, settings
from localcluster.api import Api
from localcluster.depth import Depth
from localcluster.errors import LocalClusterError, SetupError, StartError
from localcluster.process import Processes, boot_id
from localcluster.progress import Lines, Progress, Silent, task

if TYPE_CHECKING:
    from pathlib import Path

    from localcluster.context import Context
    from localcluster.settings import Settings

_PORT_IS_TAKEN = "address already in use"
_TRIES = 3


@dataclass(frozen=True)
class Cluster:
    """A cluster that runs.

    Attributes:
        name: Its name.
        depth: How much of it is real.
        state: Its folder: logs, certificates, data.
        server: The API server's URL.
        kubeconfig: The file with a cluster administrator's credentials.
        ca_file: The authority of its certificates.
        admin_token: The bearer token of a cluster administrator.
        version: Kubernetes' version, without `v`.
    """

    name: str
    depth: Depth
    state: Path
    server: str
    kubeconfig: Path
    ca_file: Path
    admin_token: str
    version: str

    def kubectl(self, *args: str, input: str | None = None) -> str:  # noqa: A002 -- as subprocess calls it
        """Run kubectl as the administrator; its standard output.

        Args:
            args: Its arguments.
            input: Its standard input, for `-f -`.

        Raises:
            LocalClusterError: It failed; the text is what it said.
        """
        import subprocess

        program = binaries.find("kubectl", kubernetes=self.version, progress=Lines())
        command = [str(program), f"--kubeconfig={self.kubeconfig}", *args]
        done = subprocess.run(command, input=input, capture_output=True, text=True, check=False)
        if done.returncode:
            raise LocalClusterError(f"`kubectl {' '.join(args)}` failed: {done.stderr.strip()}")
        return done.stdout

    def token(self, namespace: str, service_account: str) -> str:
        """A bearer token of a service account, valid for an hour (TokenRequest)."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{service_account}/token"
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": 3600},
        }
        answer = Api(self.server, self.ca_file, self.admin_token).create(path, request)
        return str(answer["status"]["token"])

    def load(self, image_tar: Path) -> None:
        """Make the images of an archive (`docker save`, buildah's docker-archive) available to the real node.

        Raises:
            SetupError: The cluster has no real node.
        """
        if self.depth is not Depth.NODE:
            raise SetupError(f"cluster {self.name!r} has depth {self.depth}: only depth node has a node for images")
        from localcluster import node

        known = settings.read(self.name)
        assert known is not None
        node.load(settings.context(known, Silent()), image_tar)

    def down(self) -> None:
        """Stop it and remove everything of it."""
        down(self.name)


@dataclass(frozen=True)
class Status:
    """What there is of a cluster.

    Attributes:
        name: Its name.
        depth: Its depth, None if only remains without settings are left.
        version: Kubernetes' version, likewise.
        server: The API server's URL, likewise.
        processes: The PIDs of its components by name, in the order of starting; None for one that is dead.
        ready: Whether the API server answers that it is ready and no component is dead.
    """

    name: str
    depth: Depth | None
    version: str | None
    server: str | None
    processes: dict[str, int | None]
    ready: bool


def up(
    name: str = "default",
    depth: Depth = Depth.CONTROL_PLANE,
    *,
    kubernetes: str | None = None,
    nodes: int = 5,
    controller_qps: int = 1000,
    progress: Progress | None = None,
) -> Cluster:
    """Start a cluster, or what is missing of one that runs only in part, and return when it is ready.

    Args:
        name: Its name; clusters of several names run side by side.
        depth: How much of it is real.
        kubernetes: The version; None means `KUBERNETES` of the environment, else the pinned one (or, for a cluster
            that exists, its own).
        nodes: The number of simulated nodes at depth kwok.
        controller_qps: The requests per second that kube-controller-manager may send; upstream's default is 20.
        progress: Who is told what takes long.

    Raises:
        SetupError: The machine does not allow it, or a running cluster of this name is of another kind.
        BinaryError: A program could not be had.
        StartError: A component did not become ready; what was started before it keeps running, for `status`, the logs
            and the next `up`; `down` removes it.
    """
    shown = progress or Silent()
    settings.state_folder(name)
    if depth is Depth.NODE:
        require_root()
    with settings.locked(f"cluster-{name}"):
        known = _reusable(name, depth, kubernetes, shown)
        if known is None:
            version = binaries.kubernetes_version(kubernetes)
            known = settings.create(name, depth, version, nodes=nodes, controller_qps=controller_qps)
        context = settings.context(known, shown)
        for attempt in range(_TRIES):
            try:
                _start(context)
                break
            except StartError as error:
                # A port was free when it was chosen, and somebody else took it since.
                if _PORT_IS_TAKEN not in str(error) or attempt == _TRIES - 1:
                    raise
                removal.stop(context)
                (context.state / "ports.json").unlink(missing_ok=True)
    return _cluster(context)


def get(name: str) -> Cluster | None:
    """The cluster of that name, if its API server answers that it is ready; else None."""
    known = settings.read(name)
    if known is None:
        return None
    context = settings.context(known, Silent())
    return _cluster(context) if _answers(context) else None


def status(name: str) -> Status | None:
    """What there is of a cluster; None if nothing is."""
    state = settings.state_folder(name)
    if not state.is_dir():
        return None
    processes = Processes(state)
    pids = {component: processes.running(component) for component in processes.names()}
    known = settings.read(name)
    if known is None:
        return Status(name, None, None, None, pids, ready=False)
    context = settings.context(known, Silent())
    wanted = controlplane.components(known.depth)
    ready = all(pids.get(component) for component in wanted) and all(pids.values()) and _answers(context)
    return Status(name, known.depth, known.version, context.server, pids, ready=ready)


def down(name: str, progress: Progress | None = None) -> None:
    """Stop a cluster and remove everything of it: processes, mounts, interfaces, namespaces, files. No error if absent.

    Raises:
        LocalClusterError: Something could not be removed; its folder stays, so that `down` can be tried again.
    """
    state = settings.state_folder(name)
    with settings.locked(f"cluster-{name}") as lock:
        if state.is_dir():
            with task(progress or Silent(), f"down {name}"):
                known = settings.read(name)
                if known is not None:
                    removal.stop(settings.context(known, Silent()))
                else:
                    removal.stop_processes(Processes(state))
                removal.remove_folder(state)
        lock.unlink()


def require_root() -> None:
    """Raise if this user cannot run a real node.

    Raises:
        SetupError: It is not root.
    """
    if os.geteuid() != 0:
        raise SetupError("depth node needs root: it makes network namespaces, mounts and cgroups; run it with sudo")


def _reusable(name: str, depth: Depth, kubernetes: str | None, progress: Progress) -> Settings | None:
    """The settings of a cluster that is there and is what was asked for; remains that cannot go on are removed."""
    state = settings.state_folder(name)
    if not state.is_dir():
        return None
    known = settings.read(name)
    processes = Processes(state)
    alive = any(processes.running(component) for component in processes.names())
    if known is not None:
        version = binaries.kubernetes_version(kubernetes) if kubernetes else known.version
        if known.boot == boot_id() and (known.depth, known.version) == (depth, version):
            return known
        if alive:
            raise SetupError(
                f"cluster {name!r} runs with depth {known.depth} and Kubernetes {known.version}, not with depth {depth}"
                f" and Kubernetes {version}: `down` it first, or choose another name"
            )
    with task(progress, f"remove what is left of cluster {name}"):
        if known is not None:
            removal.stop(settings.context(known, Silent()))
        else:
            removal.stop_processes(processes)
        removal.remove_folder(state)
    return None


def _start(context: Context) -> None:
    controlplane.start(context)
    match context.depth:
        case Depth.KWOK:
            kwok.start(context)
        case Depth.NODE:
            from localcluster import node

            node.start(context)
        case Depth.CONTROL_PLANE:
            pass


def _answers(context: Context) -> bool:
    if not context.processes.running("kube-apiserver"):
        return False
    try:
        return controlplane.api(context).is_ready() is True
    except OSError:
        return False


def _cluster(context: Context) -> Cluster:
    return Cluster(
        name=context.name,
        depth=context.depth,
        state=context.state,
        server=context.server,
        kubeconfig=context.admin_kubeconfig,
        ca_file=context.pki.ca.certificate,
        admin_token=context.admin_token,
        version=context.version,
    )
