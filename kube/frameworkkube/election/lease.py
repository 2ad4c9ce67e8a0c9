"""A Lease as candidates read and write it; `election` decides which candidate may do so, and when."""

from dataclasses import dataclass
from typing import Any, Final

import msgspec

from frameworkkube.errors import KubeError

API_VERSION: Final = "coordination.k8s.io/v1"


class UnreadableLeaseError(KubeError):
    """The server answered with success, but not with a Lease."""


@dataclass(frozen=True)
class Lease:
    """A Lease that was read, or is to be created. Unknown fields are written back as they came."""

    body: dict[str, Any]

    @classmethod
    def absent(cls, namespace: str, name: str) -> "Lease":
        """Return a Lease that does not exist yet: creating it is no transition."""
        metadata = {"namespace": namespace, "name": name}
        return cls({"apiVersion": API_VERSION, "kind": "Lease", "metadata": metadata, "spec": {"leaseTransitions": -1}})

    @classmethod
    def decode(cls, data: bytes) -> "Lease":
        """Decode an answer.

        Raises:
            UnreadableLeaseError: the answer is something else, a proxy's page for example.
        """
        try:
            body = msgspec.json.decode(data, type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise UnreadableLeaseError(f"the answer is not a Lease: {error}") from error
        metadata = body.get("metadata")
        if body.get("kind") != "Lease" or not isinstance(metadata, dict) or not metadata.get("resourceVersion"):
            raise UnreadableLeaseError(f"the answer is not a Lease but of kind {body.get('kind')!r}")
        return cls(body)

    @property
    def record(self) -> tuple[object, dict[str, Any]]:
        """The part that changes with each renewal: the UID and the spec. Anybody may change labels and annotations."""
        return self.body["metadata"].get("uid"), self._spec

    @property
    def holder(self) -> str:
        """The holder's identity, empty if it was released."""
        return self._spec.get("holderIdentity") or ""

    @property
    def seconds(self) -> float:
        """How long the holder may be silent, 0 if the Lease does not say."""
        return float(self._spec.get("leaseDurationSeconds") or 0)

    def held_by(self, identity: str, seconds: int, now: str) -> bytes:
        """Return the body that makes `identity` the holder, or keeps it so; `now` is RFC 3339 with microseconds."""
        spec = self._spec | {"holderIdentity": identity, "leaseDurationSeconds": seconds, "renewTime": now}
        if self.holder != identity:
            spec |= {"acquireTime": now, "leaseTransitions": int(self._spec.get("leaseTransitions") or 0) + 1}
        return msgspec.json.encode(self.body | {"spec": spec})

    def released(self, now: str) -> bytes:
        """Return the body that lets the next candidate in at once."""
        free = {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": now, "acquireTime": now}
        return msgspec.json.encode(self.body | {"spec": self._spec | free})

    @property
    def _spec(self) -> dict[str, Any]:
        return self.body.get("spec") or {}
