"""Objects for informers: Pods as JSON on the wire and as the slim structs that a cache keeps."""

from dataclasses import dataclass

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


def pod(name: str, version: int, *, uid: str = "", phase: str = "Pending", framework: str = "f") -> dict[str, object]:
    metadata = {
        "name": name,
        "namespace": "default",
        "uid": uid or f"uid-{name}",
        "resourceVersion": str(version),
        "labels": {"framework": framework},
        "managedFields": [{"manager": "kubelet"}],
    }
    return {"kind": "Pod", "metadata": metadata, "spec": {"containers": []}, "status": {"phase": phase}}


def added(name: str, version: int, **more: str) -> dict[str, object]:
    return {"type": "ADDED", "object": pod(name, version, **more)}


def modified(name: str, version: int, **more: str) -> dict[str, object]:
    return {"type": "MODIFIED", "object": pod(name, version, **more)}


def deleted(name: str, version: int, **more: str) -> dict[str, object]:
    return {"type": "DELETED", "object": pod(name, version, **more)}


def bookmark(version: int) -> dict[str, object]:
    return {
        "type": "BOOKMARK",
        "object": {"kind": "Pod", "metadata": {"resourceVersion": str(version), "creationTimestamp": None}},
    }


def end_of_list(version: int) -> dict[str, object]:
    """The bookmark after the last object of a list that is streamed."""
    metadata = {"resourceVersion": str(version), "annotations": {"k8s.io/initial-events-end": "true"}}
    return {"type": "BOOKMARK", "object": {"kind": "Pod", "metadata": metadata | {"creationTimestamp": None}}}


def error(code: int, reason: str, **details: object) -> dict[str, object]:
    return {
        "type": "ERROR",
        "object": {"kind": "Status", "code": code, "reason": reason, "message": "because", "details": details},
    }


def listing(version: int, *items: dict[str, object], token: str = "") -> dict[str, object]:
    return {"kind": "PodList", "metadata": {"resourceVersion": str(version), "continue": token}, "items": list(items)}


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
