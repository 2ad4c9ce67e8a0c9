"""What the injector counts, ``frameworkinjector_*``; outcomes and reasons are those of ``reasons``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.process_collector import ProcessCollector

from frameworkinjector.reasons import Reason

if TYPE_CHECKING:
    import datetime as dt

    from frameworkinjector.reasons import Verdict

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_BUCKETS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class Metrics:
    """A registry of its own, so that several servers in one process do not collide."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        requests = Counter(
            "frameworkinjector_requests",
            "Requests by what came of them.",
            ("outcome", "reason"),
            registry=self.registry,
        )
        # All series exist from the start: a rate over a series that appears at 1 would miss the first one.
        self._by_reason = {reason: requests.labels(reason.outcome.value, reason.slug) for reason in Reason}
        self._seconds = Histogram(
            "frameworkinjector_request_duration_seconds",
            "From the end of the body to the answer.",
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self._expiry = Gauge(
            "frameworkinjector_certificate_expiry_timestamp_seconds",
            "Unix time at which the certificate that is served ends.",
            registry=self.registry,
        )
        self.connections = Gauge(
            "frameworkinjector_connections", "TLS connections that are open.", registry=self.registry
        )

    def review(self, verdict: Verdict, seconds: float | None) -> None:
        """Counts one request; ``seconds`` is None for what never got as far as a review."""
        self._by_reason[verdict.reason].inc()
        if seconds is not None:
            self._seconds.observe(seconds)

    def certificate(self, until: dt.datetime) -> None:
        """Notes that another certificate is served."""
        self._expiry.set(until.timestamp())

    def text(self) -> bytes:
        """The exposition format."""
        return generate_latest(self.registry)
