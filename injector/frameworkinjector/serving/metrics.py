"""The metrics `frameworkinjector_*`; source of their names: docs/reference/injector.md, section 2."""

import datetime as dt
from functools import partial
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.process_collector import ProcessCollector

from frameworkinjector.review.reasons import Reason, Verdict

_BUCKETS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class Metrics:
    """The metrics of one server, in a registry of its own so that several servers in one process do not collide."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        counter, gauge = partial(Counter, registry=registry), partial(Gauge, registry=registry)
        requests = counter("frameworkinjector_requests", "Requests by outcome and reason.", ("outcome", "reason"))
        # Every series exists from the start: a rate over a series that appears at 1 would miss the first request.
        self._by_reason = {reason: requests.labels(reason.ruling.value, reason.slug) for reason in Reason}
        self._seconds = Histogram(
            "frameworkinjector_request_duration_seconds",
            "Of the review itself, without the wait for its turn.",
            buckets=_BUCKETS,
            registry=registry,
        )
        self._expiry = gauge(
            "frameworkinjector_certificate_expiry_timestamp_seconds",
            "Unix time at which the served certificate expires.",
        )
        self.version_skew = counter(
            "frameworkinjector_version_skew",
            "Injected Pods whose controller and barrier are too far apart in their versions.",
        )
        closed = counter(
            "frameworkinjector_connections_closed",
            "Connections that a limit closed: gave way, no room to wait, no request, or an answer not taken in.",
            ("reason",),
        )
        self._closed = {reason: closed.labels(reason) for reason in ("evicted", "refused", "silent", "unread")}
        self.connections = gauge("frameworkinjector_connections", "Open connections.")
        self.callers = gauge("frameworkinjector_callers", "Addresses that are known to be those of API servers.")

    def review(self, verdict: Verdict, seconds: float | None) -> None:
        """Count one request; `seconds` is the time of its review, None if it was rejected before that or is no Pod."""
        self._by_reason[verdict.reason].inc()
        if seconds is not None:
            self._seconds.observe(seconds)

    def connection_closed(self, reason: str) -> None:
        """Count a connection that a limit closed."""
        self._closed[reason].inc()

    def certificate(self, until: dt.datetime) -> None:
        """Note the expiry of a certificate that is served from now on."""
        self._expiry.set(until.timestamp())

    def text(self) -> bytes:
        """Return all metrics in the exposition format of Prometheus."""
        return generate_latest(self.registry)
