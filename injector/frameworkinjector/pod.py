"""The parts of a Pod and of an AdmissionReview that matter here; all else is skipped, neither kept nor changed.

Decoding only these is fast, holds memory flat against hostile bodies (what is skipped is never built), and lets fields
of any newer Kubernetes version pass by. ``None`` stands for absent and for null alike.
"""

from __future__ import annotations

import msgspec


class Metadata(msgspec.Struct, frozen=True):
    """``metadata`` of a Pod."""

    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class Named(msgspec.Struct, frozen=True):
    """Anything of which only the name matters: a volume, a variable."""

    name: str = ""


class Mount(msgspec.Struct, frozen=True, rename="camel"):
    """An entry of ``volumeMounts``."""

    mount_path: str = ""


class Container(msgspec.Struct, frozen=True, rename="camel"):
    """An application or init container."""

    name: str = ""
    command: list[str] | None = None
    env: list[Named] | None = None
    volume_mounts: list[Mount] | None = None


class OperatingSystem(msgspec.Struct, frozen=True):
    """``spec.os``."""

    name: str = ""


class SecurityContext(msgspec.Struct, frozen=True, rename="camel"):
    """``spec.securityContext``."""

    run_as_user: int | None = None


class Spec(msgspec.Struct, frozen=True, rename="camel"):
    """``spec`` of a Pod."""

    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    volumes: list[Named] | None = None
    host_network: bool | None = None
    host_aliases: list[msgspec.Raw] | None = None
    node_selector: dict[str, str] | None = None
    os: OperatingSystem | None = None
    security_context: SecurityContext | None = None


class Pod(msgspec.Struct, frozen=True):
    """A Pod as it is about to be created."""

    metadata: Metadata = Metadata()
    spec: Spec = Spec()

    @property
    def labels(self) -> dict[str, str]:
        """The labels, none of them absent."""
        return self.metadata.labels or {}

    @property
    def annotations(self) -> dict[str, str]:
        """The annotations, none of them absent."""
        return self.metadata.annotations or {}


class Kind(msgspec.Struct, frozen=True):
    """``request.kind``."""

    group: str = ""
    version: str = ""
    kind: str = ""


class Request(msgspec.Struct, frozen=True, rename="camel"):
    """``request`` of an AdmissionReview; the object is decoded only once it is known to be a Pod."""

    uid: str
    kind: Kind = Kind()
    operation: str = ""
    namespace: str = ""
    sub_resource: str = ""
    dry_run: bool | None = None
    object: msgspec.Raw = msgspec.Raw(b"null")


class Review(msgspec.Struct, frozen=True, rename="camel"):
    """An AdmissionReview with its request."""

    api_version: str
    kind: str
    request: Request


decode_review = msgspec.json.Decoder(Review).decode
decode_pod = msgspec.json.Decoder(Pod).decode
