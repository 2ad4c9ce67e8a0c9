"""The link between this machine and the cluster's node.

A node has a network namespace of its own (see `namespaces`), and one veth pair connects it to the machine:

    machine: API server, tests            node: kubelet, kube-proxy, CoreDNS, CNI bridge with the Pods
    fc-1a2b3c4d  10.x.0.1/30  ----------  eth0  10.x.0.2/30

The machine routes the addresses of Pods and Services to the node, where kube-proxy's rules translate them. A process of
the machine (the API server that calls a webhook, a test) therefore reaches Pods and Services, and Pods reach the API
server. Nothing else is forwarded: the machine's own rules, bridges and `ip_forward` stay as they are, clusters side by
side do not reach each other, and everything ends with the namespace.
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
        interface: The machine's end of the veth pair.
        machine: The machine's address, which the API server advertises.
        node: The node's address, its InternalIP.
        pods: The addresses of Pods; the first is that of the bridge, their gateway.
        services: The cluster IPs of Services.
    """

    interface: str
    machine: IPv4Address
    node: IPv4Address
    pods: IPv4Network
    services: IPv4Network

    @property
    def gateway(self) -> IPv4Address:
        """The address of the bridge, the Pods' gateway."""
        return self.pods[1]


def link(context: Context) -> Link:
    """Return the link of a cluster, which its network and state folder determine."""
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
    """Make the veth pair, with its far end in the network namespace of `init_pid`, and the routes, if they are missing.

    Raises:
        SetupError: The kernel refused; the text has the message of `ip`.
    """
    if not _exists(ends.interface):
        # One command makes both ends in place, so that a crash cannot leave half a pair.
        _ip("link", "add", ends.interface, "type", "veth", "peer", "name", "eth0", "netns", str(init_pid))
    inside = ("nsenter", "--net", "--target", str(init_pid), "--")
    _ip("link", "set", "lo", "up", prefix=inside)
    _ip("address", "replace", f"{ends.node}/30", "dev", "eth0", prefix=inside)
    _ip("link", "set", "eth0", "up", prefix=inside)
    # The kubelet and kube-proxy require a default route. It leads no further than the machine, which forwards nothing.
    _ip("route", "replace", "default", "via", str(ends.machine), prefix=inside)
    _ip("address", "replace", f"{ends.machine}/30", "dev", ends.interface)
    _ip("link", "set", ends.interface, "up")
    for destination in (ends.pods, ends.services):
        _ip("route", "replace", str(destination), "via", str(ends.node))


def disconnect(ends: Link) -> None:
    """Remove the veth pair and its routes, if they exist."""
    if _exists(ends.interface):
        try:
            _ip("link", "delete", ends.interface)
        except SetupError:
            # The kernel removes the pair when the namespace ends, which may happen at this moment.
            if _exists(ends.interface):
                raise


def _exists(interface: str) -> bool:
    return Path("/sys/class/net", interface).exists()


def _ip(*arguments: str, prefix: Sequence[str] = ()) -> None:
    done = subprocess.run([*prefix, "ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SetupError(f"`ip {' '.join(arguments)}` failed: {done.stderr.strip()}")
