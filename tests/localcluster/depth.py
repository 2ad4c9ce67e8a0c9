"""How much of Kubernetes is real."""

from __future__ import annotations

import enum


class Depth(enum.StrEnum):
    """How much of Kubernetes is real: each depth has all of the one before it, except kwok's nodes."""

    CONTROL_PLANE = "control-plane"
    KWOK = "kwok"
    NODE = "node"
