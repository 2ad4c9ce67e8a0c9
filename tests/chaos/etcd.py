"""What etcd stored, revision by revision, read from etcd itself: no restart of the API server hides anything."""

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass

import urllib3

_QUIET_SECONDS = 2.0


@dataclass(frozen=True)
class Change:
    """One change of one key at a revision of the whole store; the value is None if the object was deleted."""

    revision: int
    name: str
    value: bytes | None


class EtcdWatch:
    """All changes of the keys under a prefix, which ends with a slash, from now on."""

    def __init__(self, url: str, prefix: str) -> None:
        self._prefix = prefix.encode()
        self._pool = urllib3.PoolManager(retries=False, timeout=urllib3.Timeout(connect=5.0, read=_QUIET_SECONDS))
        self._url = url
        answer = self._pool.request("POST", f"{url}/v3/kv/range", json={"key": _text(b"\0"), "count_only": True})
        self._next = int(answer.json()["header"]["revision"]) + 1

    def changes(self) -> Iterator[Change]:
        """Yield the changes since the last call, and those that come; return after some seconds without one."""
        end = self._prefix[:-1] + bytes([self._prefix[-1] + 1])
        wanted = {"key": _text(self._prefix), "range_end": _text(end), "start_revision": str(self._next)}
        try:
            answer = self._pool.request(
                "POST", f"{self._url}/v3/watch", json={"create_request": wanted}, preload_content=False
            )
            try:
                rest = b""
                for chunk in answer.stream(decode_content=True):
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        yield from self._read(line)
            finally:
                answer.close()
        except urllib3.exceptions.HTTPError:
            # Nothing to read for some seconds, or etcd is being restarted.
            return

    def _read(self, line: bytes) -> Iterator[Change]:
        content = json.loads(line)
        result = content.get("result", {})
        compacted = int(result.get("compact_revision", 0))
        assert not compacted, (
            f"etcd has forgotten the revisions from {self._next} to {compacted}: the watch was too slow"
        )
        for event in result.get("events", []):
            pair = event["kv"]
            revision, deleted = int(pair["mod_revision"]), event.get("type") == "DELETE"
            name = base64.b64decode(pair["key"])[len(self._prefix) :].decode()
            yield Change(revision, name, None if deleted else base64.b64decode(pair.get("value", "")))
            self._next = max(self._next, revision + 1)


@dataclass(frozen=True)
class StoredPod:
    """What the guarantees are about, of a Pod as etcd stores it (protobuf); the node is "" if it is not bound."""

    uid: str
    node: str
    phase: str
    deleting: bool


def stored_pod(value: bytes) -> StoredPod:
    """Return a Pod from its stored bytes; numbers of fields are those of `k8s.io/api/core/v1/generated.proto`."""
    assert value.startswith(b"k8s\0"), value[:40]
    pod = _fields(_fields(value[4:])[2])
    meta, spec, status = _fields(pod[1]), _fields(pod.get(2, b"")), _fields(pod.get(3, b""))
    return StoredPod(meta[5].decode(), spec.get(10, b"").decode(), status.get(1, b"").decode(), 9 in meta)


def _fields(message: bytes) -> dict[int, bytes]:
    """Return the length-delimited fields of a message, of repeated ones the last."""
    found: dict[int, bytes] = {}
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        match tag & 7:
            case 0:
                _, at = _varint(message, at)
            case 1:
                at += 8
            case 2:
                size, at = _varint(message, at)
                found[tag >> 3] = message[at : at + size]
                at += size
            case 5:
                at += 4
            case other:
                raise AssertionError(f"no wire type: {other}")
    return found


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def _text(key: bytes) -> str:
    return base64.b64encode(key).decode()
