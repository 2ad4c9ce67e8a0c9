"""The link between this machine and the cluster's node.

A node lives in a network namespace of its own (see `node`), joined to the machine by one veth pair:

    machine: API server, tests            node: kubelet, kube-proxy, CoreDNS, CNI bridge with the Pods
    fc-1a2b3c4d  10.x.0.1/30  ----------  eth0  10.x.0.2/30

The machine routes the Pods' and the Services' addresses to the node, where kube-proxy's rules translate them. So a
process of the machine (the API server that calls a webhook, a test) reaches Pods and Services, and Pods reach the API
server. Nothing is forwarded to anywhere else: the machine's own rules, bridges and forwarding switch stay as they are,
clusters side by side do not see each other, and everything ends with the namespace.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import TYPE_CHECKING

from localcluster.errors import SetupError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from localcluster.context import Context


@dataclass(frozen=True)
class Link:
    """Names and addresses of a cluster's node, all within the cluster's own 10.x.0.0/16.

    Attributes:
        interface: The machine's end of the veth pair; also the name of the cluster's cgroup.
        machine: The machine's address on it, which the API server advertises.
        node: The node's address on it: its InternalIP.
        pods: The addresses of Pods; the first is the bridge, their gateway.
        services: The cluster IPs of Services.
    """

    interface: str
    machine: IPv4Address
    node: IPv4Address
    pods: IPv4Network
    services: IPv4Network

    @property
    def gateway(self) -> IPv4Address:
        """The bridge's address, where CoreDNS listens too."""
        return self.pods[1]


def link(context: Context) -> Link:
    """The link of a cluster, a function of its network and name."""
    machine = IPv4Address(context.network.bridge_address)
    return Link(
        interface=f"fc-{context.tag}",
        machine=machine,
        node=machine + 1,
        # 10.x.192.0/22, beyond what the control plane and simulated nodes use of the cluster's network.
        pods=IPv4Network((int(machine) & 0xFFFF0000 | 192 << 8, 22)),
        services=IPv4Network(context.network.service_subnet),
    )


def connect(ends: Link, init_pid: int) -> None:
    """Make the veth pair and the routes, the far end in the network namespace of `init_pid`; what is there stays.

    Raises:
        SetupError: The kernel refuses; the text is what `ip` said.
    """
    if not _exists(ends.interface):
        # Made with its far end in place: there is no moment in which half a pair could be left behind.
        _ip("link", "add", ends.interface, "type", "veth", "peer", "name", "eth0", "netns", str(init_pid))
    inside = ("nsenter", "--net", "--target", str(init_pid), "--")
    _ip("link", "set", "lo", "up", prefix=inside)
    _ip("address", "replace", f"{ends.node}/30", "dev", "eth0", prefix=inside)
    _ip("link", "set", "eth0", "up", prefix=inside)
    # The kubelet and kube-proxy insist on a default route. The machine forwards nothing, so it leads no further.
    _ip("route", "replace", "default", "via", str(ends.machine), prefix=inside)
    _ip("address", "replace", f"{ends.machine}/30", "dev", ends.interface)
    _ip("link", "set", ends.interface, "up")
    for destination in (ends.pods, ends.services):
        _ip("route", "replace", str(destination), "via", str(ends.node))


def disconnect(ends: Link) -> None:
    """Remove the veth pair, and with it its routes; no error if it is gone."""
    if _exists(ends.interface):
        try:
            _ip("link", "delete", ends.interface)
        except SetupError:
            # The kernel removes it by itself when the namespace ends, maybe at this moment.
            if _exists(ends.interface):
                raise


def _exists(interface: str) -> bool:
    return Path("/sys/class/net", interface).exists()


def _ip(*arguments: str, prefix: Sequence[str] = ()) -> None:
    done = subprocess.run([*prefix, "ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SetupError(f"`ip {' '.join(arguments)}` failed: {done.stderr.strip()}")
