"""How much of Kubernetes a cluster has."""

from __future__ import annotations

import enum


class Depth(enum.StrEnum):
    """How much of Kubernetes a cluster has.

    Each depth has everything of the depth before it, except the simulated nodes of `KWOK`.
    """

    CONTROL_PLANE = "control-plane"
    KWOK = "kwok"
    NODE = "node"
