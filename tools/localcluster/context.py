"""The frozen value that every component of a cluster takes: its folder, addresses, certificates and processes.

`cluster` makes it from what `settings` keeps about a cluster, and hands it to `controlplane`, `kwok` and `node`.

`cluster.up` calls `node.start(context)` at depth `node`. By then

- etcd, kube-apiserver, kube-controller-manager and kube-scheduler are ready, and `context.server` answers on 127.0.0.1;
- the API server listens on all addresses and advertises `context.network.bridge_address`, which does not exist yet;
- its certificate is valid for `context.network.bridge_address`, for the `kubernetes` Service and for 127.0.0.1;
- RBAC, node authorization and NodeRestriction are on: the kubelet needs `context.component_kubeconfig("kubelet",
  user="system:node:NAME", group="system:nodes")`, kube-proxy `user="system:kube-proxy"`.

`removal.stop` calls `node.stop(context)` before it stops the control plane, also after a start that failed half-way and
after a process was killed. `node.stop` therefore accepts that anything is missing, and raises only if it cannot remove
something. It leaves the processes that were started through `context.processes` to `removal.stop`.
"""

import enum
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from localcluster import kubeconfigs
from localcluster.pki import NO_GROUP, Pki
from localcluster.processes import ports
from localcluster.processes.supervisor import Supervisor
from localcluster.programs import binaries


class Depth(enum.StrEnum):
    """How much of Kubernetes a cluster has.

    Each depth has everything of the depth before it, except the simulated nodes of `KWOK`.
    """

    CONTROL_PLANE = "control-plane"
    KWOK = "kwok"
    NODE = "node"


class Network:
    """The addresses of one cluster, 10.<octet>.0.0/16, which no route of this machine and no other cluster uses.

    Attributes:
        bridge_address: Of this machine, for the real node and its Pods; the API server advertises it.
        node_address: Of the real node, its InternalIP.
        simulated_pods: Of Pods on simulated nodes.
        service_subnet: Of Services.
        kubernetes_service: Of the `kubernetes` Service, the first one of the range.
        dns_service: Of the DNS Service.
        pods: Of Pods on the real node.
        gateway: Of the bridge of the real node, the gateway of its Pods.
    """

    def __init__(self, octet: int) -> None:
        self.bridge_address = f"10.{octet}.0.1"
        self.node_address = f"10.{octet}.0.2"
        self.simulated_pods = f"10.{octet}.64.0/18"
        self.service_subnet = f"10.{octet}.128.0/20"
        self.kubernetes_service = f"10.{octet}.128.1"
        self.dns_service = f"10.{octet}.128.10"
        self.pods = f"10.{octet}.192.0/22"
        self.gateway = f"10.{octet}.192.1"


@dataclass(frozen=True)
class Settings:
    """The request that made a cluster, and the values that were chosen for it."""

    name: str
    depth: Depth
    version: str
    """Of Kubernetes, without `v`."""
    nodes: int
    """The number of simulated nodes (depth kwok)."""
    octet: int
    admin_token: str
    """The bearer token of a member of `system:masters`."""
    boot: str
    """The boot in which it was made; after another boot etcd's data, which is not synced to disk, is unusable."""


@dataclass(frozen=True)
class Context(Settings):
    """One cluster as its components see it; `state` is its folder, with PID files, logs, certificates and data."""

    state: Path
    api_port: int

    @property
    def network(self) -> Network:
        """Its addresses."""
        return Network(self.octet)

    @property
    def pki(self) -> Pki:
        """Its certificates and keys."""
        return Pki(self.state / "pki")

    @property
    def processes(self) -> Supervisor:
        """The supervisor of its processes."""
        return Supervisor(self.state)

    @property
    def interface(self) -> str:
        """This machine's end of the link to the real node, another one for each cluster: at most 15 characters."""
        return f"fc-{hashlib.sha256(str(self.state).encode()).hexdigest()[:8]}"

    @property
    def server(self) -> str:
        """The API server's URL on loopback."""
        return f"https://127.0.0.1:{self.api_port}"

    @property
    def ca_file(self) -> Path:
        """The certificate authority of the cluster."""
        return self.pki.ca.certificate

    @property
    def kubeconfig(self) -> Path:
        """The file with a cluster administrator's credentials; it exists when the control plane is ready."""
        return self.state / "kubeconfig"

    def port(self, name: str) -> int:
        """Return the TCP port of a name such as `etcd-peer`: a free one at the first call, later the same one."""
        return ports.recorded(self.state / ports.FILE, name)

    def binary(self, name: str) -> Path:
        """Return the path of a program such as `kubelet`; a download or build, which may take minutes, is shown."""
        return binaries.find(name, kubernetes=self.version)

    def start(
        self,
        name: str,
        *arguments: str,
        ready: Callable[[], bool | str],
        env: Mapping[str, str] | None = None,
        prefix: Sequence[str] = (),
    ) -> None:
        """Start a program as the component of its name, and return when it is ready; see `Supervisor.start`.

        The command may have a prefix that runs it, for example in other namespaces.
        """
        self.processes.start(name, [*prefix, str(self.binary(name)), *arguments], env=env, ready=ready)

    def component_kubeconfig(
        self, component: str, *, user: str, group: str = NO_GROUP, server: str | None = None
    ) -> Path:
        """Write `<component>.kubeconfig` with a client certificate of its own, and return its path; see `Pki.client`.

        The server is a URL of the API server, by default the one on loopback.
        """
        files = self.pki.client(component, user=user, group=group)
        given = {"client-certificate-data": files.certificate, "client-key-data": files.key}
        content = {name: kubeconfigs.encoded(file) for name, file in given.items()}
        return kubeconfigs.write(self.state / f"{component}.kubeconfig", server or self.server, self.ca_file, content)
