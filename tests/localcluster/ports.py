"""Free TCP ports, chosen once and kept in a file, and free networks for several clusters side by side."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import socket
from typing import TYPE_CHECKING

from localcluster.errors import SetupError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_FIRST_OCTET, _LAST_OCTET = 64, 254
# Linux takes 32768 to 60999 for outgoing connections, Kubernetes 30000 to 32767 for node ports.
_FIRST_PORT, _LAST_PORT = 20000, 29999


def free_port() -> int:
    """A TCP port that nobody listens on now, on any address.

    It is drawn from below the range that the kernel takes for outgoing connections: a port of that range may be taken
    by any of them while a component restarts, even by a client that calls the component and so connects to itself.
    """
    for _ in range(1000):
        port = _FIRST_PORT + secrets.randbelow(_LAST_PORT - _FIRST_PORT + 1)
        if is_free(port):
            return port
    raise SetupError(f"no TCP port from {_FIRST_PORT} to {_LAST_PORT} is free")


def is_free(port: int) -> bool:
    """Whether a server could listen on this port on all addresses now."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("", port))
            listener.listen()
        except OSError:
            return False
        return True


def recorded(file: Path, name: str) -> int:
    """The port of that name in the file; a free one is chosen and added if there is none. Safe between processes."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with os.fdopen(os.open(file, os.O_RDWR | os.O_CREAT, 0o600), "r+") as content:
        fcntl.flock(content, fcntl.LOCK_EX)
        ports = _parsed(content.read())
        if name not in ports:
            # One that is recorded but not in use yet looks free.
            while (port := free_port()) in ports.values():
                pass
            ports[name] = port
            content.seek(0)
            content.truncate()
            json.dump(ports, content, indent=1)
        return ports[name]


def _parsed(text: str) -> dict[str, int]:
    try:
        return dict(json.loads(text))
    except ValueError:
        # New, or its writer was killed; then components with other ports than before are started anew.
        return {}


def taken_octets(routes: str) -> set[int]:
    """The x of every 10.x.0.0/16 that a route of this machine touches; a default route touches none.

    Args:
        routes: The text of /proc/net/route: destination and mask are little-endian hexadecimal numbers.
    """
    taken: set[int] = set()
    for line in routes.splitlines()[1:]:
        fields = line.split()
        destination = bytes.fromhex(fields[1])[::-1]
        mask = bytes.fromhex(fields[7])[::-1]
        if destination[0] == 10:
            taken |= {octet for octet in range(256) if octet & mask[1] == destination[1] & mask[1]}
    return taken


def choose_octet(wish: int, taken: Iterable[int]) -> int:
    """The first free octet from a wished one on, round and round.

    Raises:
        SetupError: All are taken.
    """
    unavailable = set(taken)
    count = _LAST_OCTET - _FIRST_OCTET + 1
    for step in range(count):
        octet = _FIRST_OCTET + (wish + step) % count
        if octet not in unavailable:
            return octet
    raise SetupError("no network 10.x.0.0/16 is free: too many clusters run, or a route covers 10.0.0.0/8")
