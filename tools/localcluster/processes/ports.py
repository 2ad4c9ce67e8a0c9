"""Free TCP ports and free 10.x.0.0/16 networks, so that clusters can run side by side; SetupError if none is free."""

import json
import secrets
import socket
from collections.abc import Set
from pathlib import Path

from filelock import FileLock

from localcluster.errors import SetupError

FILE = "ports.json"
"""The file of a cluster's ports, in its folder."""
_FIRST_OCTET, _LAST_OCTET = 64, 254
# Linux uses 32768 to 60999 for outgoing connections, Kubernetes 30000 to 32767 for node ports.
_FIRST_PORT, _LAST_PORT = 20000, 29999


def free_port() -> int:
    """Return a TCP port on which no process listens now, on any address, and which no other process has chosen.

    The port lies below the range that the kernel uses for outgoing connections. A port of that range may be taken while
    a component restarts, even by a client that calls the component and so connects to itself.
    """
    for _ in range(1000):
        port = _FIRST_PORT + secrets.randbelow(_LAST_PORT - _FIRST_PORT + 1)
        if is_free(port) and _mark(port):
            return port
    raise SetupError(f"no free TCP port was found from {_FIRST_PORT} to {_LAST_PORT}: stop the servers that use them")


def is_free(port: int) -> bool:
    """Report whether a server could listen on this port on all addresses now."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("", port))
            listener.listen()
        except OSError:
            return False
        return True


def _mark(port: int) -> bool:
    """Mark a port as chosen until this process ends, by its UDP port, and report whether nobody else has.

    It is free until a server begins, which may take minutes.
    """
    with socket.socket(type=socket.SOCK_DGRAM) as mark:
        try:
            mark.bind(("127.0.0.1", port))
        except OSError:
            return False
        mark.detach()
    return True


def recorded(file: Path, name: str) -> int:
    """Return the port of that name in a file; if there is none, choose a free one and add it."""
    with FileLock(file.with_suffix(".lock")):
        try:
            ports: dict[str, int] = json.loads(file.read_text())
        except (OSError, ValueError):
            # The file is new, or its writer was killed; then components get other ports and are started again.
            ports = {}
        if name not in ports:
            # A port that is recorded but not in use yet looks free.
            while (port := free_port()) in ports.values():
                pass
            ports[name] = port
            file.write_text(json.dumps(ports, indent=1))
        return ports[name]


def taken_octets(routes: str) -> set[int]:
    """Return the x of every 10.x.0.0/16 that overlaps with a route of /proc/net/route, which a default route does not.

    Destination and mask are little-endian hexadecimal numbers there.
    """
    taken: set[int] = set()
    for line in routes.splitlines()[1:]:
        fields = line.split()
        destination = bytes.fromhex(fields[1])[::-1]
        mask = bytes.fromhex(fields[7])[::-1]
        if destination[0] == 10:
            taken |= {octet for octet in range(256) if octet & mask[1] == destination[1] & mask[1]}
    return taken


def choose_octet(wish: int, taken: Set[int]) -> int:
    """Return the first free octet, beginning at the position of a preferred one and starting over at the end."""
    count = _LAST_OCTET - _FIRST_OCTET + 1
    for step in range(count):
        octet = _FIRST_OCTET + (wish + step) % count
        if octet not in taken:
            return octet
    raise SetupError(
        "no network 10.x.0.0/16 is free: too many clusters run, or a route covers 10.0.0.0/8;"
        " remove clusters with `python -m localcluster down`"
    )
