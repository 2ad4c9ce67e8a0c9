"""What every component of a cluster needs to know, in one frozen value: the only thing that is passed around.

Who writes a component (`node.py`, `containerd.py`, `network.py` ...) gets a `Context` and nothing else.

What is there when `localcluster.node.start(ctx)` is called, at depth `node`:

- etcd, kube-apiserver, kube-controller-manager and kube-scheduler run and are ready (the scheduler is *not* a part of
  the node's own code); `ctx.server` answers on 127.0.0.1;
- the API server listens on all addresses and advertises `ctx.bridge_address`, which need not exist before;
- its certificate is valid for `ctx.bridge_address`, for the `kubernetes` Service and for 127.0.0.1;
- RBAC, node authorization and NodeRestriction are on: the kubelet needs `ctx.kubeconfig("kubelet",
  user="system:node:NAME", groups=["system:nodes"])`, kube-proxy `user="system:kube-proxy"`.

`localcluster.node.stop(ctx)` is called before the control plane is stopped, on every `down` and also when a start went
wrong half-way or a process was killed: it must cope with anything missing, and raise only when something of ours could
not be removed. Processes that the node started through `ctx.processes` need no care: `down` stops them too, after it.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from localcluster import binaries, kubeconfigs, ports

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from localcluster.depth import Depth
    from localcluster.pki import Pki
    from localcluster.process import Processes
    from localcluster.progress import Progress


@dataclass(frozen=True)
class Network:
    """The addresses of one cluster: 10.<octet>.0.0/16, which no route of this machine and no other cluster uses.

    Attributes:
        octet: The second octet, 64 to 254.
    """

    octet: int

    @property
    def bridge_address(self) -> str:
        """This machine's, as the real node and its Pods see it; the API server advertises it: 10.x.0.1."""
        return f"10.{self.octet}.0.1"

    @property
    def simulated_pods(self) -> str:
        """The Pods of kwok's nodes: 10.x.64.0/18."""
        return f"10.{self.octet}.64.0/18"

    @property
    def service_subnet(self) -> str:
        """The cluster IPs of Services: 10.x.128.0/20."""
        return f"10.{self.octet}.128.0/20"

    @property
    def kubernetes_service(self) -> str:
        """The `kubernetes` Service in `default`, the first address of the range: 10.x.128.1."""
        return f"10.{self.octet}.128.1"

    @property
    def dns_service(self) -> str:
        """The cluster IP for CoreDNS's Service: 10.x.128.10."""
        return f"10.{self.octet}.128.10"


@dataclass(frozen=True)
class Context:
    """One cluster as its components see it.

    Attributes:
        name: The cluster's name.
        depth: How much of it is asked for.
        state: Its folder (PID files, logs, certificates, data); `down` removes it when everything in it is unmounted.
        version: Kubernetes' version without `v`, for example `1.36.3`.
        network: Its addresses.
        pki: Its certificate authority and the files made by it.
        processes: The supervisor of its processes.
        progress: Who is told what takes long.
        nodes: The number of simulated nodes (depth kwok).
        controller_qps: The requests per second that kube-controller-manager may send; upstream's default is 20.
        admin_token: The bearer token of a member of `system:masters`.
    """

    name: str
    depth: Depth
    state: Path
    version: str
    network: Network
    pki: Pki
    processes: Processes
    progress: Progress
    nodes: int
    controller_qps: int
    admin_token: str

    @property
    def tag(self) -> str:
        """Eight hexadecimal digits that differ from cluster to cluster: for interface names (15 characters at most)."""
        return hashlib.sha256(str(self.state).encode()).hexdigest()[:8]

    @property
    def bridge_address(self) -> str:
        """Shorthand for `network.bridge_address`."""
        return self.network.bridge_address

    @property
    def server(self) -> str:
        """The API server's URL on loopback."""
        return f"https://127.0.0.1:{self.port('kube-apiserver')}"

    @property
    def admin_kubeconfig(self) -> Path:
        """The kubeconfig of `system:masters`; it is there when the control plane is ready."""
        return self.state / "kubeconfig"

    def port(self, name: str) -> int:
        """The TCP port of that name: a free one at the first call, the same one ever after (kept in the state folder).

        Args:
            name: Whatever tells apart the ports of a cluster: `kube-apiserver`, `kubelet`, `kubelet-healthz` ...
        """
        return ports.recorded(self.state / "ports.json", name)

    def binary(self, name: str) -> Path:
        """The program, found or downloaded or built (which is shown and may take minutes): `kubelet`, `coredns` ...

        Raises:
            BinaryError: Nothing of that worked; the text says what to install.
        """
        return binaries.find(name, kubernetes=self.version, progress=self.progress)

    def kubeconfig(self, component: str, *, user: str, groups: Sequence[str] = (), server: str | None = None) -> Path:
        """A kubeconfig file with a client certificate of its own, for a component or a test.

        Args:
            component: Names the file `<state>/<component>.kubeconfig`; a file that is there and valid is kept.
            user: The user name that the API server sees (the certificate's common name).
            groups: Its groups (the certificate's organizations).
            server: The API server's URL; None means `server`, on loopback.
        """
        files = self.pki.client(component, user=user, groups=groups)
        content = kubeconfigs.with_certificate(server or self.server, self.pki.ca.certificate, files)
        return kubeconfigs.write(self.state / f"{component}.kubeconfig", content)

    def note(self, key: str, value: object) -> None:
        """Keep a small fact in `<state>/notes.json` for a later run, for example the name of an interface to remove."""
        notes = self.notes()
        notes[key] = value
        temporary = self.state / "notes.json.new"
        temporary.write_text(json.dumps(notes, indent=1))
        temporary.replace(self.state / "notes.json")

    def notes(self) -> dict[str, object]:
        """Everything noted so far; empty if nothing was."""
        try:
            return dict(json.loads((self.state / "notes.json").read_text()))
        except (OSError, ValueError):
            return {}
