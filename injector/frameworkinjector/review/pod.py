"""The fields of a Pod and of an AdmissionReview that the injector reads; the decoder skips all others.

Decoding only these fields is fast, bounds the memory of hostile bodies (a skipped value is never built), and accepts
fields of newer Kubernetes versions. `None` means absent or null.
"""

import posixpath
from typing import Annotated, Any

import msgspec

from frameworkcontroller.api import names as fc

JSON = dict[str, Any]
# One of more digits would take longer to decode.
_Whole = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class Owner(msgspec.Struct, frozen=True):
    """An object that owns the Pod, or controls it."""

    kind: str = ""
    name: str = ""
    controller: bool | None = None


class Metadata(msgspec.Struct, frozen=True, rename="camel"):
    """`metadata` of a Pod; it has no name yet if the API server is to generate one."""

    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    name: str | None = None
    owner_references: list[Owner] | None = None


class Named(msgspec.Struct, frozen=True):
    """An object of which only the name is read: a volume, a variable, an operating system."""

    name: str = ""


class _Mount(msgspec.Struct, frozen=True, rename="camel"):
    mount_path: str = ""

    @property
    def path(self) -> str:
        """Where the kubelet mounts it: a relative path begins at the root."""
        return "/" + posixpath.normpath("/" + self.mount_path).lstrip("/")


class _EnvSource(msgspec.Struct, frozen=True, rename="camel"):
    prefix: str | None = None
    config_map_ref: Named | None = None
    secret_ref: Named | None = None


# To decode a number of many digits takes microseconds, so they stay encoded until one is asked for.
Amounts = dict[str, msgspec.Raw]


class Resources(msgspec.Struct, frozen=True):
    """`resources` of a container or of a Pod; the API server writes each amount as a string, a user may not."""

    requests: Amounts | None = None
    limits: Amounts | None = None


class _Probe(msgspec.Struct, frozen=True, rename="camel"):
    failure_threshold: _Whole | None = None


class Container(msgspec.Struct, frozen=True, rename="camel"):
    """An application or init container."""

    name: str = ""
    command: list[str] | None = None
    env: list[Named] | None = None
    env_from: list[_EnvSource] | None = None
    volume_mounts: list[_Mount] | None = None
    resources: Resources | None = None
    restart_policy: str | None = None
    # They are counted only.
    restart_policy_rules: list[msgspec.Raw] | None = None
    liveness_probe: _Probe | None = None


class _NodeSelectorRequirement(msgspec.Struct, frozen=True):
    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class NodeSelectorTerm(msgspec.Struct, frozen=True, rename="camel"):
    """An entry of `nodeSelectorTerms`."""

    match_expressions: list[_NodeSelectorRequirement] | None = None
    match_fields: list[_NodeSelectorRequirement] | None = None


class _NodeSelector(msgspec.Struct, frozen=True, rename="camel"):
    node_selector_terms: list[NodeSelectorTerm] | None = None


class _NodeAffinity(msgspec.Struct, frozen=True, rename="camel"):
    required_during_scheduling_ignored_during_execution: _NodeSelector | None = None


class _Affinity(msgspec.Struct, frozen=True, rename="camel"):
    node_affinity: _NodeAffinity | None = None


class _SecurityContext(msgspec.Struct, frozen=True, rename="camel"):
    run_as_user: _Whole | None = None


class Spec(msgspec.Struct, frozen=True, rename="camel"):
    """`spec` of a Pod."""

    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    volumes: list[Named] | None = None
    host_network: bool | None = None
    # They are counted only.
    host_aliases: list[msgspec.Raw] | None = None
    node_selector: dict[str, str] | None = None
    os: Named | None = None
    restart_policy: str | None = None
    affinity: _Affinity | None = None
    security_context: _SecurityContext | None = None
    image_pull_secrets: list[Named] | None = None
    resources: Resources | None = None


class Pod(msgspec.Struct, frozen=True):
    """A Pod that is being created."""

    metadata: Metadata = Metadata()
    spec: Spec = Spec()

    @property
    def labels(self) -> dict[str, str]:
        """The labels; empty if there are none."""
        return self.metadata.labels or {}

    @property
    def annotations(self) -> dict[str, str]:
        """The annotations; empty if there are none."""
        return self.metadata.annotations or {}

    @property
    def framework_name(self) -> str:
        """The name of the Framework that the Pod belongs to; "" if there is none."""
        return self.annotations.get(fc.FRAMEWORK_NAME) or self.labels.get(fc.FRAMEWORK_NAME, "")

    @property
    def controller(self) -> Owner | None:
        """The object that created the Pod, None if a person did."""
        return next((one for one in self.metadata.owner_references or () if one.controller), None)

    @property
    def owner_kind(self) -> str:
        """Its kind, for example `Job`; "" if a person created the Pod."""
        return "" if self.controller is None else self.controller.kind

    @property
    def restart_policy(self) -> str:
        """`spec.restartPolicy`, or its default."""
        return self.spec.restart_policy or "Always"

    @property
    def has_host_aliases(self) -> bool:
        """Whether `spec.hostAliases` has an entry."""
        return bool(self.spec.host_aliases)


class _Kind(msgspec.Struct, frozen=True):
    group: str = ""
    kind: str = ""


class Request(msgspec.Struct, frozen=True, rename="camel"):
    """`request` of an AdmissionReview; `object` stays encoded until it is known to be a Pod."""

    uid: str
    kind: _Kind = _Kind()
    operation: str = ""
    namespace: str = ""
    sub_resource: str = ""
    object: msgspec.Raw = msgspec.Raw(b"null")


class Review(msgspec.Struct, frozen=True, rename="camel"):
    """An AdmissionReview with its request."""

    api_version: str
    kind: str
    request: Request


decode_review = msgspec.json.Decoder(Review).decode
decode_pod = msgspec.json.Decoder(Pod).decode
