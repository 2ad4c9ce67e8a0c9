"""The link between this machine and the cluster's node.

A node has a network namespace of its own (see `namespaces`), and one veth pair connects it to the machine:

    machine: API server, tests            node: kubelet, kube-proxy, CoreDNS, CNI bridge with the Pods
    fc-1a2b3c4d  10.x.0.1/30  ----------  eth0  10.x.0.2/30

The machine routes the addresses of Pods and Services to the node, where kube-proxy's rules translate them. A process of
the machine (the API server that calls a webhook, a test) therefore reaches Pods and Services, and Pods reach the API
server. Nothing else is forwarded: the machine's own rules, bridges and `ip_forward` stay as they are, clusters side by
side do not reach each other, and everything ends with the namespace.
"""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from localcluster.context import Context
from localcluster.errors import SetupError


def connect(context: Context, init_pid: int) -> None:
    """Make the veth pair, with its far end in the network namespace of `init_pid`, and the routes, if they are missing.

    Raises:
        SetupError: The kernel refused; the text has the message of `ip`.
    """
    ends, interface = context.network, context.interface
    if not _exists(interface):
        # One command makes both ends in place, so that a crash cannot leave half a pair.
        _ip("link", "add", interface, "type", "veth", "peer", "name", "eth0", "netns", str(init_pid))
    inside = ("nsenter", "--net", "--target", str(init_pid), "--")
    _ip("link", "set", "lo", "up", prefix=inside)
    _ip("address", "replace", f"{ends.node_address}/30", "dev", "eth0", prefix=inside)
    _ip("link", "set", "eth0", "up", prefix=inside)
    # The kubelet and kube-proxy require a default route. It leads no further than the machine, which forwards nothing.
    _ip("route", "replace", "default", "via", ends.bridge_address, prefix=inside)
    _ip("address", "replace", f"{ends.bridge_address}/30", "dev", interface)
    _ip("link", "set", interface, "up")
    for destination in (ends.pods, ends.service_subnet):
        _ip("route", "replace", destination, "via", ends.node_address)


def disconnect(interface: str) -> None:
    """Remove the veth pair and its routes, if they exist."""
    if _exists(interface):
        try:
            _ip("link", "delete", interface)
        except SetupError:
            # The kernel removes the pair when the namespace ends, which may happen at this moment.
            if _exists(interface):
                raise


def _exists(interface: str) -> bool:
    return Path("/sys/class/net", interface).exists()


def _ip(*arguments: str, prefix: Sequence[str] = ()) -> None:
    done = subprocess.run([*prefix, "ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SetupError(f"`ip {' '.join(arguments)}` failed: {done.stderr.strip()}")
