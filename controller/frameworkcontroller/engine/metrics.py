"""Prometheus metrics. Where controller-runtime and client-go have names, they are used, so that dashboards fit."""

from __future__ import annotations

from collections import Counter as Tally
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.gc_collector import GCCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from frameworkcontroller.api.states import State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from frameworkcontroller.core.book import Transition
    from frameworkcontroller.core.gang import Milestone
    from frameworkcontroller.core.reconciler import FrameworkReconciler

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
CONTROLLER: Final = "framework"
_FAST: Final = (0.00001, 0.0001, 0.001, 0.01, 0.1, 1.0, 10.0)
_REQUEST: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60)
_START: Final = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 60, 120, 300, 600, 1800)


class _States(Collector):
    """Counts Frameworks and Tasks by state when somebody asks, from what is counted anyway."""

    def __init__(self) -> None:
        self.reconcilers: Callable[[], Iterable[FrameworkReconciler]] = tuple

    def collect(self) -> Iterator[GaugeMetricFamily]:
        frameworks: Tally[str] = Tally()
        tasks: Tally[str] = Tally()
        for reconciler in self.reconcilers():
            if reconciler.state is not None:
                frameworks[str(reconciler.state)] += 1
            tasks.update(reconciler.tasks_by_state)
        for name, what, counted in (
            ("frameworkcontroller_frameworks", "Frameworks by state.", frameworks),
            ("frameworkcontroller_tasks", "Tasks by state.", tasks),
        ):
            family = GaugeMetricFamily(name, what, labels=["state"])
            for state in State:
                family.add_metric([str(state)], counted[str(state)])
            yield family


class Metrics:
    """A registry of its own, so that several controllers in one process do not collide."""

    def __init__(self) -> None:
        registry = self.registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        GCCollector(registry=registry)
        self._states = _States()
        registry.register(self._states)
        self._depth = Gauge(
            "workqueue_depth", "Frameworks that wait.", ("name", "controller"), registry=registry
        ).labels(CONTROLLER, CONTROLLER)
        self.queue_adds = Counter(
            "workqueue_adds", "Frameworks that were queued.", ("name", "controller"), registry=registry
        ).labels(CONTROLLER, CONTROLLER)
        self.queue_seconds = Histogram(
            "workqueue_queue_duration_seconds",
            "How long a Framework waited for its pass.",
            ("name", "controller"),
            buckets=_FAST,
            registry=registry,
        ).labels(CONTROLLER, CONTROLLER)
        self.work_seconds = Histogram(
            "workqueue_work_duration_seconds",
            "How long a pass took.",
            ("name", "controller"),
            buckets=_FAST,
            registry=registry,
        ).labels(CONTROLLER, CONTROLLER)
        self.retries = Counter(
            "workqueue_retries",
            "Requests to be made again.",
            ("name", "controller"),
            registry=registry,
        ).labels(CONTROLLER, CONTROLLER)
        reconciles = Counter(
            "controller_runtime_reconcile", "Passes by result.", ("controller", "result"), registry=registry
        )
        self._results = {
            result: reconciles.labels(CONTROLLER, result) for result in ("success", "error", "requeue_after")
        }
        self._errors = Counter(
            "controller_runtime_reconcile_errors", "Passes that failed.", ("controller",), registry=registry
        ).labels(CONTROLLER)
        self.reconcile_seconds = Histogram(
            "controller_runtime_reconcile_time_seconds",
            "How long a pass took.",
            ("controller",),
            buckets=_FAST,
            registry=registry,
        ).labels(CONTROLLER)
        self._requests = Counter(
            "rest_client_requests", "Requests by status code.", ("code", "method", "host"), registry=registry
        )
        self._request_seconds = Histogram(
            "rest_client_request_duration_seconds",
            "Until the status line.",
            ("verb", "host"),
            buckets=_REQUEST,
            registry=registry,
        )
        self._attempts = Counter(
            "frameworkcontroller_attempts", "Attempts that were started.", ("kind",), registry=registry
        )
        self._completions = Counter(
            "frameworkcontroller_attempt_completions",
            "Attempts that ended.",
            ("kind", "code", "phrase"),
            registry=registry,
        )
        self._start = Histogram(
            "frameworkcontroller_gang_start_seconds",
            "From the start of a Framework attempt until all its Pods are created, all have an IP, the gate is open.",
            ("phase",),
            buckets=_START,
            registry=registry,
        )
        self._leads = Gauge(
            "leader_election_master_status", "1 while this replica holds the lease.", ("name",), registry=registry
        )
        self.events_dropped = Gauge(
            "frameworkcontroller_events_dropped", "Events that were too many to write.", registry=registry
        )

    def watch(self, reconcilers: Callable[[], Iterable[FrameworkReconciler]], queue_length: Callable[[], int]) -> None:
        """Read these at each scrape: all Frameworks, and how many of them wait for their pass."""
        self._states.reconcilers = reconcilers
        self._depth.set_function(queue_length)

    def watch_lease(self, name: str, holds: Callable[[], bool]) -> None:
        """Read at each scrape whether this replica is the one that works."""
        self._leads.labels(name).set_function(holds)

    def finished(self, *, method: str, host: str, code: str, seconds: float) -> None:
        """One HTTP exchange ended (see `cluster.transport.RequestObserver`)."""
        self._requests.labels(code, method, host).inc()
        self._request_seconds.labels(method, host).observe(seconds)

    def passed(self, seconds: float, *, again: bool) -> None:
        """One pass over a Framework; ``again``: it asked to be looked at later."""
        self._results["requeue_after" if again else "success"].inc()
        self.reconcile_seconds.observe(seconds)
        self.work_seconds.observe(seconds)

    def failed(self) -> None:
        """A Framework could not be decided on."""
        self._results["error"].inc()
        self._errors.inc()

    def moved(self, transition: Transition) -> None:
        """A state changed."""
        if transition.after is State.CREATION_REQUESTED:
            self._attempts.labels(transition.kind).inc()
        elif transition.after is State.ATTEMPT_COMPLETED:
            self._completions.labels(transition.kind, str(transition.code), transition.reason).inc()

    def reached(self, milestone: Milestone) -> None:
        """A gang got this far."""
        self._start.labels(milestone.phase).observe(milestone.seconds)

    def text(self) -> bytes:
        """What a scrape reads."""
        return generate_latest(self.registry)
