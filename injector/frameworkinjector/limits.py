"""The bounds on what clients of the webhook may cost; source: docs/reference/injector.md, section 2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """Bounds on the connections of one port.

    Attributes:
        connections: Open connections, those in their TLS handshake included. Each takes up to 1 MiB of buffers.
        of_one_source: Open connections of one address.
        waiting: Accepted connections that wait for a place, as bare sockets.
        waiting_of_one_source: Those of one address. With its open ones these are more than 200, which is how many
            objects an API server has reviewed at a time by default (`--max-mutating-requests-inflight`).
        grace_seconds: Time for which a connection is not closed in favour of another one of the same source.
        handshake_seconds: Time for a TLS handshake.
        first_request_seconds: Time for a new connection to send its first request head, the handshake included.
        idle_seconds: Time between requests; above the 90 s after which the API server itself closes idle connections,
            because a call that meets a connection which is being closed fails.
    """

    connections: int = 64
    of_one_source: int = 48
    waiting: int = 256
    waiting_of_one_source: int = 160
    grace_seconds: float = 0.5
    handshake_seconds: float = 5.0
    first_request_seconds: float = 10.0
    idle_seconds: float = 100.0


# The kubelet and Prometheus ask a few times in a minute.
HEALTH_CONNECTIONS: Final = ConnectionLimits(
    connections=32, of_one_source=8, waiting=0, first_request_seconds=5, idle_seconds=15
)


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
    connections: ConnectionLimits = ConnectionLimits()
