"""What the operator decides for every barrier container, and what the cluster supports."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from frameworkbarrier.presets.model import Presets
from frameworkinjector import __version__
from frameworkinjector.review.resources import Claims, read_limits, read_requests

# Of the same version, which does not move: a node may keep it.
DEFAULT_BARRIER_IMAGE: Final = f"docker.io/frameworkcontroller/barrier:{__version__}"
# docs/reference/barrier.md, section 7, has the measurements.
DEFAULT_REQUESTS: Final = "cpu=10m,memory=32Mi"
DEFAULT_LIMITS: Final = "cpu=100m,memory=96Mi"
# The image's own user.
DEFAULT_UID: Final = 65532


class PullPolicy(StrEnum):
    """The `imagePullPolicy` of the barrier container."""

    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


class EnvFiles(StrEnum):
    """Whether the API server supports `fileKeyRef`, and which syntax of the file its nodes read.

    Kubernetes 1.34 (feature gate EnvFiles, alpha) reads `NAME=value`; 1.35 (beta, on by default) and later read only
    `NAME='value'`.
    """

    NONE = "none"
    PLAIN = "plain"
    QUOTED = "quoted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """What every barrier container gets."""

    version: str
    """The injector's."""
    barrier_image: str = DEFAULT_BARRIER_IMAGE
    """The image, unless the Pod names another."""
    pull_policy: PullPolicy = PullPolicy.IF_NOT_PRESENT
    pull_secrets: tuple[str, ...] = ()
    """Names of Secrets for its registry, in the namespace of the Pod."""
    resources: Claims = field(
        default_factory=lambda: Claims(read_requests(DEFAULT_REQUESTS), read_limits(DEFAULT_LIMITS))
    )
    """What the barrier of a sidecar asks for, and the least limits of any barrier."""
    uid: int | None = DEFAULT_UID
    """The user of a barrier whose Pod names none; None where the cluster gives each namespace its own (OpenShift)."""
    presets: Presets = field(default_factory=dict)
    """The operator's own."""
    in_place_restart: bool = False
    """Whether the cluster supports it."""
    foreign_gangs: bool = False
    """Whether the controller keeps rosters of gangs without a Framework."""
