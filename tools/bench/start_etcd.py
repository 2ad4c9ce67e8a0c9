"""Writes objects straight into etcd, as the API server stores them: a hundred thousand in seconds.

The API server stores its own kinds in a binary encoding and reads JSON, too; custom resources are JSON anyway. What is
written here is an object as the API server has answered it.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

import urllib3

if TYPE_CHECKING:
    from collections.abc import Iterable

# etcd's own limits are 128 operations and 1.5 MiB for each transaction.
_MOST_OBJECTS = 100
_MOST_BYTES = 1 << 20


class Etcd:
    """The etcd of a local cluster.

    Args:
        port: Of its clients, on loopback.
    """

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/v3/kv/txn"
        self._pool = urllib3.PoolManager(retries=False, timeout=60)

    def put(self, objects: Iterable[tuple[str, str]]) -> int:
        """Write objects, each a key below /registry and its JSON, in their order; return their number."""
        written, waiting, size = 0, list[tuple[str, str]](), 0
        for key, value in objects:
            if waiting and (len(waiting) == _MOST_OBJECTS or size + len(value) > _MOST_BYTES):
                self._send(waiting)
                written, waiting, size = written + len(waiting), [], 0
            waiting.append((key, value))
            size += len(value)
        self._send(waiting)
        return written + len(waiting)

    def _send(self, objects: list[tuple[str, str]]) -> None:
        puts = [
            {"requestPut": {"key": _encoded(f"/registry/{key}"), "value": _encoded(value)}} for key, value in objects
        ]
        answer = self._pool.request("POST", self._url, body=json.dumps({"success": puts}))
        assert answer.status == 200, answer.data[:500]


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
