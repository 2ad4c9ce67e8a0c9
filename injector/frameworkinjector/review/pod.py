"""The fields of a Pod and of an AdmissionReview that the injector reads; the decoder skips all others.

Decoding only these fields is fast, bounds the memory of hostile bodies (a skipped value is never built), and accepts
fields of newer Kubernetes versions. `None` means absent or null.
"""

from __future__ import annotations

from typing import Any

import msgspec

from frameworkcontroller.api import names as fc

JSON = dict[str, Any]


class Owner(msgspec.Struct, frozen=True):
    """An entry of `metadata.ownerReferences`."""

    kind: str = ""
    controller: bool | None = None


class Metadata(msgspec.Struct, frozen=True, rename="camel"):
    """`metadata` of a Pod; it has no name yet if the API server is to generate one."""

    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    name: str | None = None
    owner_references: list[Owner] | None = None


class Named(msgspec.Struct, frozen=True):
    """An object of which only the name is read: a volume, a variable, a container."""

    name: str = ""


class Mount(msgspec.Struct, frozen=True, rename="camel"):
    """An entry of `volumeMounts`."""

    mount_path: str = ""


class EnvSource(msgspec.Struct, frozen=True, rename="camel"):
    """An entry of `envFrom`."""

    prefix: str | None = None
    config_map_ref: Named | None = None
    secret_ref: Named | None = None


Amounts = dict[str, str | int | float]


class Resources(msgspec.Struct, frozen=True):
    """`resources` of a container or of a Pod; the API server writes each amount as a string, a user may not."""

    requests: Amounts | None = None
    limits: Amounts | None = None


class RestartRule(msgspec.Struct, frozen=True):
    """An entry of `restartPolicyRules`."""

    action: str = ""


class Probe(msgspec.Struct, frozen=True, rename="camel"):
    """`livenessProbe` of a container."""

    failure_threshold: int | None = None


class Container(msgspec.Struct, frozen=True, rename="camel"):
    """An application or init container."""

    name: str = ""
    command: list[str] | None = None
    env: list[Named] | None = None
    env_from: list[EnvSource] | None = None
    volume_mounts: list[Mount] | None = None
    resources: Resources | None = None
    restart_policy: str | None = None
    restart_policy_rules: list[RestartRule] | None = None
    liveness_probe: Probe | None = None


class OperatingSystem(msgspec.Struct, frozen=True):
    """`spec.os`."""

    name: str = ""


class NodeSelectorRequirement(msgspec.Struct, frozen=True):
    """An entry of `matchExpressions`."""

    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class NodeSelectorTerm(msgspec.Struct, frozen=True, rename="camel"):
    """An entry of `nodeSelectorTerms`."""

    match_expressions: list[NodeSelectorRequirement] | None = None
    match_fields: list[NodeSelectorRequirement] | None = None

    @property
    def is_empty(self) -> bool:
        """Whether the term has no requirement, and so matches no node."""
        return not self.match_expressions and not self.match_fields


class NodeSelector(msgspec.Struct, frozen=True, rename="camel"):
    """What a node affinity requires."""

    node_selector_terms: list[NodeSelectorTerm] | None = None


class NodeAffinity(msgspec.Struct, frozen=True, rename="camel"):
    """`spec.affinity.nodeAffinity`."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None


class Affinity(msgspec.Struct, frozen=True, rename="camel"):
    """`spec.affinity`."""

    node_affinity: NodeAffinity | None = None


class SecurityContext(msgspec.Struct, frozen=True, rename="camel"):
    """`spec.securityContext`."""

    run_as_user: int | None = None


class Spec(msgspec.Struct, frozen=True, rename="camel"):
    """`spec` of a Pod."""

    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    volumes: list[Named] | None = None
    host_network: bool | None = None
    host_aliases: msgspec.Raw = msgspec.Raw(b"null")
    node_selector: dict[str, str] | None = None
    os: OperatingSystem | None = None
    restart_policy: str | None = None
    affinity: Affinity | None = None
    security_context: SecurityContext | None = None
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
    def owner_kind(self) -> str:
        """The kind of the object that created the Pod, for example `Job`; "" if a person did."""
        return next((one.kind for one in self.metadata.owner_references or () if one.controller), "")

    @property
    def has_host_aliases(self) -> bool:
        """Whether `spec.hostAliases` has an entry; it stays encoded, because entries are many and not read."""
        return b"{" in bytes(self.spec.host_aliases)


class Kind(msgspec.Struct, frozen=True):
    """`request.kind`."""

    group: str = ""
    version: str = ""
    kind: str = ""


class Request(msgspec.Struct, frozen=True, rename="camel"):
    """`request` of an AdmissionReview; `object` stays encoded until it is known to be a Pod."""

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
