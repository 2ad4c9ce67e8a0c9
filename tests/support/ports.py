"""Ports of this machine, and what is said on them."""

from __future__ import annotations

import socket
import urllib.error
import urllib.request


def free_port() -> int:
    """One that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def fetch(port: int, path: str) -> tuple[int, str]:
    """Status and text of a plain HTTP answer. Raises URLError if there is none."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
