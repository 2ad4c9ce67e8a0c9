"""Objects for informers: Pods as JSON on the wire and as the slim structs that a cache keeps."""

import json
from dataclasses import dataclass
from typing import Any

import msgspec


class Meta(msgspec.Struct, frozen=True, rename="camel", gc=False):
    name: str
    uid: str
    resource_version: str
    namespace: str = ""
    labels: dict[str, str] = {}


class Status(msgspec.Struct, frozen=True, gc=False):
    phase: str = ""


class Pod(msgspec.Struct, frozen=True, gc=False):
    metadata: Meta
    status: Status = Status()


DECODER = msgspec.json.Decoder(Pod)
PATH = "/api/v1/pods"


Json = dict[str, Any]


def pod(name: str, version: int, *, uid: str = "", phase: str = "Pending", framework: str = "f") -> Json:
    metadata = {
        "name": name,
        "namespace": "default",
        "uid": uid or f"uid-{name}",
        "resourceVersion": str(version),
        "labels": {"framework": framework},
        "managedFields": [{"manager": "kubelet"}],
    }
    return {"kind": "Pod", "metadata": metadata, "spec": {"containers": []}, "status": {"phase": phase}}


def encoded(document: object) -> bytes:
    """As JSON; bytes are it already."""
    return document if isinstance(document, bytes) else json.dumps(document).encode()


def raw_object(parts: Json) -> bytes:
    """As JSON, but for values in bytes, which may be what no library would write."""
    return b"{" + b",".join(b'"%s":%s' % (name.encode(), encoded(value)) for name, value in parts.items()) + b"}"


def event(kind: str, found: Json | bytes) -> bytes:
    """A line of a watch."""
    return b'{"type":"%s","object":%s}' % (kind.encode(), encoded(found))


def added(name: str, version: int, **more: str) -> bytes:
    return event("ADDED", pod(name, version, **more))


def modified(name: str, version: int, **more: str) -> bytes:
    return event("MODIFIED", pod(name, version, **more))


def deleted(name: str, version: int, **more: str) -> bytes:
    return event("DELETED", pod(name, version, **more))


def bookmark(version: int, **more: Json) -> bytes:
    metadata = {"resourceVersion": str(version), "creationTimestamp": None, **more}
    return event("BOOKMARK", {"kind": "Pod", "metadata": metadata})


def end_of_list(version: int) -> bytes:
    """The bookmark after the last object of a list that is streamed."""
    return bookmark(version, annotations={"k8s.io/initial-events-end": "true"})


def error(code: int, reason: str, **details: object) -> bytes:
    return event("ERROR", {"kind": "Status", "code": code, "reason": reason, "message": "because", "details": details})


def listing(version: int, *items: Json | bytes, token: str = "") -> bytes:
    metadata = encoded({"resourceVersion": str(version), "continue": token})
    return b'{"kind":"PodList","metadata":%s,"items":[%s]}' % (metadata, b",".join(map(encoded, items)))


@dataclass
class Changes:
    """Remembers the changes that an informer reported, as `+a/uid`, `~a/uid:phase` and `-a/uid`."""

    seen: list[str]

    def __call__(self, old: Pod | None, new: Pod | None) -> None:
        match old, new:
            case None, Pod():
                self.seen.append(f"+{new.metadata.name}/{new.metadata.uid}")
            case Pod(), None:
                self.seen.append(f"-{old.metadata.name}/{old.metadata.uid}")
            case Pod(), Pod():
                assert old.metadata.uid == new.metadata.uid
                self.seen.append(f"~{new.metadata.name}/{new.metadata.uid}:{new.status.phase}")
            case _:
                raise AssertionError("a change of nothing")
