"""The bounds on what clients of the webhook may cost; source: docs/reference/injector.md, section 2."""

from __future__ import annotations

from dataclasses import dataclass, field

from frameworkkube.serving.listener import ConnectionLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds on the bytes and the time of reviews, and on connections.

    Attributes:
        body_bytes: Largest body of a request. The API server accepts no object above 3 MiB.
        body_seconds: Time for a body to arrive; below the webhook's `timeoutSeconds`, when the client has given up.
        small_bytes: Bodies up to this size are read without waiting for others.
        large_bodies: Larger bodies that are read at the same time, which bounds the memory that bodies take.
        connections: Bounds on connections.
    """

    body_bytes: int = 3 * 1024 * 1024
    body_seconds: float = 4.0
    small_bytes: int = 64 * 1024
    large_bodies: int = 8
    connections: ConnectionLimits = field(default_factory=ConnectionLimits)
