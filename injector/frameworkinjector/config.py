"""What the operator of the injector decides, and what the cluster supports."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

DEFAULT_BARRIER_IMAGE: Final = "docker.io/frameworkcontroller/barrier:dev"


class PullPolicy(StrEnum):
    """``imagePullPolicy`` of the barrier."""

    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


class EnvFiles(StrEnum):
    """Whether the API server takes ``fileKeyRef``, and which syntax its nodes read.

    Kubernetes 1.34 (feature gate EnvFiles, alpha) reads ``NAME=value``; 1.35 (beta, on by default) and later read only
    ``NAME='value'``.
    """

    NONE = "none"
    PLAIN = "plain"
    QUOTED = "quoted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """What is put into every barrier container."""

    version: str
    barrier_image: str = DEFAULT_BARRIER_IMAGE
    pull_policy: PullPolicy = PullPolicy.IF_NOT_PRESENT
