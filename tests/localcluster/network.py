"""Addresses of a cluster, and the link between this machine and the cluster's node.

A node lives in a network namespace of its own (see `node`), joined to the machine by one veth pair:

    machine: API server, tests            node: kubelet, kube-proxy, CoreDNS, CNI bridge with the Pods
    fcl0  198.18.0.1/30  ---------------  eth0  198.18.0.2/30

The machine routes the Pods' and the Services' addresses to the node, where kube-proxy's rules translate them. So a process of the machine
(the API server that calls a webhook, a test) reaches Pods and Services, Pods reach the API server, and nothing is forwarded to anywhere else:
the machine's own rules, forwarding switch and bridges stay as they are, and clusters side by side do not see each other.

The addresses are of 198.18.0.0/15, set aside for tests inside closed networks (RFC 2544, RFC 6890): 32 clusters of 4,096 addresses each.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from localcluster.errors import SetupError

RANGE = IPv4Network("198.18.0.0/15")
BLOCKS = tuple(RANGE.subnets(new_prefix=20))


@dataclass(frozen=True)
class Network:
    """The addresses of one cluster.

    Attributes:
        index: Which of the 32 blocks it has; unique on this machine.
    """

    index: int

    @property
    def block(self) -> IPv4Network:
        """All addresses of the cluster."""
        return BLOCKS[self.index]

    @property
    def link(self) -> IPv4Network:
        """The two addresses between machine and node."""
        return next(self.block.subnets(new_prefix=30))

    @property
    def machine(self) -> IPv4Address:
        """The machine's end of the link: what the API server advertises (`--advertise-address`)."""
        return self.link[1]

    @property
    def node(self) -> IPv4Address:
        """The node's end of the link: its InternalIP."""
        return self.link[2]

    @property
    def pods(self) -> IPv4Network:
        """The addresses of Pods; the first one is the bridge."""
        return list(self.block.subnets(new_prefix=22))[1]

    @property
    def bridge(self) -> IPv4Address:
        """The Pods' gateway."""
        return self.pods[1]

    @property
    def services(self) -> IPv4Network:
        """The cluster IPs of Services (`--service-cluster-ip-range`)."""
        return list(self.block.subnets(new_prefix=22))[2]

    @property
    def kubernetes_service(self) -> IPv4Address:
        """The cluster IP of Service `kubernetes`: the API server takes the first."""
        return self.services[1]

    @property
    def dns_service(self) -> IPv4Address:
        """The cluster IP of Service `kube-dns`, the tenth by custom."""
        return self.services[10]

    @property
    def interface(self) -> str:
        """The machine's end of the veth pair, and the name of the cluster's cgroup."""
        return f"fcl{self.index}"


def claim(state: Path, registry: Path) -> Network:
    """The network of the cluster with this state folder; the first call takes a free one, later calls return the same.

    A claim is a symbolic link in the registry that points to the state folder; it is void once that folder is gone.

    Args:
        state: The cluster's state folder; it must exist.
        registry: A folder that all clusters of this user share, made if absent.

    Raises:
        SetupError: All 32 blocks are taken, or routed to somewhere else on this machine.
    """
    with _locked(registry):
        claims = {int(path.name): path for path in registry.iterdir() if path.is_symlink() and path.name.isdigit()}
        for index, path in claims.items():
            if path.readlink() == state:
                return Network(index)
        routed = _routed_elsewhere()
        for index, block in enumerate(BLOCKS):
            taken = claims.get(index)
            if (taken is not None and taken.exists()) or any(block.overlaps(route) for route in routed):
                continue
            if taken is not None:
                taken.unlink()
            (registry / str(index)).symlink_to(state)
            return Network(index)
    raise SetupError(f"no block of {RANGE} is free for another cluster: see the claims in {registry} and `ip route`")


def release(state: Path, registry: Path) -> None:
    """Give the cluster's network back; no error if it has none."""
    if not registry.is_dir():
        return
    with _locked(registry):
        for path in registry.iterdir():
            if path.is_symlink() and path.readlink() == state:
                path.unlink()


def connect(network: Network, init_pid: int) -> None:
    """Make the veth pair and the routes, with the far end in the network namespace of `init_pid`; what is there already stays.

    Raises:
        SetupError: The kernel refuses; the text is what `ip` said.
    """
    if not _exists(network.interface):
        # Both ends are named and moved in one step: no moment in which a half-made pair could be left behind on the machine.
        _ip("link", "add", network.interface, "type", "veth", "peer", "name", "eth0", "netns", str(init_pid))
    _ip("address", "replace", f"{network.machine}/30", "dev", network.interface)
    _ip("link", "set", network.interface, "up")
    inside = ("nsenter", "--net", "--target", str(init_pid), "--")
    _ip("link", "set", "lo", "up", prefix=inside)
    _ip("address", "replace", f"{network.node}/30", "dev", "eth0", prefix=inside)
    _ip("link", "set", "eth0", "up", prefix=inside)
    # The kubelet and kube-proxy look for a default route to know their own address; it also answers everything unknown quickly.
    _ip("route", "replace", "default", "via", str(network.machine), prefix=inside)
    for destination in (network.pods, network.services):
        _ip("route", "replace", str(destination), "via", str(network.node), prefix=())


def disconnect(network: Network) -> None:
    """Remove the veth pair, and with it its routes; no error if it is gone."""
    if _exists(network.interface):
        _ip("link", "delete", network.interface)


def _exists(interface: str) -> bool:
    return Path("/sys/class/net", interface).exists()


def _ip(*arguments: str, prefix: Sequence[str] = ()) -> str:
    done = subprocess.run([*prefix, "ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SetupError(f"`ip {' '.join(arguments)}` failed: {done.stderr.strip()}")
    return done.stdout


def _routed_elsewhere() -> list[IPv4Network]:
    """Networks inside our range that this machine routes to interfaces that are not ours (a VPN, say)."""
    if shutil.which("ip") is None:
        return []
    routes = [route for route in json.loads(_ip("-json", "-4", "route", "show") or "[]") if route["dst"] != "default"]
    networks = [IPv4Network(route["dst"]) for route in routes if not route.get("dev", "").startswith("fcl")]
    return [network for network in networks if network.overlaps(RANGE)]


@contextmanager
def _locked(registry: Path) -> Iterator[None]:
    registry.mkdir(parents=True, exist_ok=True)
    handle = os.open(registry, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
