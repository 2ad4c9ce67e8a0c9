"""Prometheus metrics, with the names of controller-runtime and client-go where they exist, so that dashboards fit."""

import time
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from functools import partial
from typing import Final, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.gc_collector import GCCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from frameworkcontroller.api.codes import PREDEFINED, UNRECOGNIZED_PHRASE
from frameworkcontroller.api.states import LedgerState, State
from frameworkcontroller.api.status import GangRestart, Hang
from frameworkcontroller.core.effects import Missing, Outcome, Refused
from frameworkcontroller.core.gang.publisher import GangStatus, Phase
from frameworkcontroller.core.policies.classification import CodeInfo
from frameworkcontroller.core.reconcile.reconciler import FrameworkReconciler
from frameworkcontroller.core.status.reports import Milestone, Report, Transition

V = TypeVar("V", bound=str)

CONTROLLER: Final = "framework"
OTHER: Final = "other"
_FAST: Final = (0.00001, 0.0001, 0.001, 0.01, 0.1, 1.0, 10.0)
_REQUEST: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60)
_RELEASE: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_START: Final = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 60, 120, 300, 600, 1800)


def _family(name: str, text: str, label: str, values: Iterable[V], counted: Mapping[V, int]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=[label])
    for value in values:
        family.add_metric([value], counted[value])
    return family


class _Frameworks(Collector):
    """Counts Frameworks, Tasks and gangs at each scrape, from the counts that the reconcilers keep."""

    def __init__(self) -> None:
        self.reconcilers: Callable[[], Iterable[FrameworkReconciler]] = tuple
        self.at_rest: Callable[[], Iterable[tuple[State, bool]]] = tuple
        self.foreign: Callable[[], Iterable[GangStatus]] = tuple

    def collect(self) -> Iterator[GaugeMetricFamily]:
        reconcilers = list(self.reconcilers())
        states = [*self.at_rest(), *((one.state, one.is_suspended) for one in reconcilers if one.state is not None)]
        frameworks = Tally(state for state, _ in states)
        tasks: Tally[State] = Tally()
        for reconciler in reconcilers:
            tasks.update(reconciler.tasks_by_state)
        yield _family("frameworkcontroller_frameworks", "Frameworks by state.", "state", State, frameworks)
        yield _family(
            "frameworkcontroller_tasks",
            "Tasks by state, without those of Frameworks at rest: Completed, or not to start.",
            "state",
            State,
            tasks,
        )
        yield GaugeMetricFamily(
            "frameworkcontroller_suspended_frameworks",
            "Frameworks that are suspended (spec.suspend), or wait in a queue.",
            value=sum(is_suspended for _, is_suspended in states),
        )
        yield GaugeMetricFamily(
            "frameworkcontroller_waiting_tasks",
            "Tasks whose TaskRole waits for others (dependsOn).",
            value=sum(one.waiting_tasks for one in reconcilers),
        )
        gangs = [gang for one in reconcilers if (gang := one.gang) is not None]
        others = list(self.foreign())
        for name, text, found in (
            ("gangs", "Gangs by phase.", gangs),
            ("foreign_gangs", "Gangs of other controllers by phase.", others),
        ):
            phases = Tally(gang.phase for gang in found)
            yield _family(f"frameworkcontroller_{name}", text, "phase", Phase, phases)
        waiting = [gang for gang in (*gangs, *others) if gang.phase in {Phase.GATHERING, Phase.LATE}]
        missing = {
            "not-created": sum(gang.not_created for gang in waiting),
            "not-ready": sum(gang.not_ready for gang in waiting),
        }
        yield _family(
            "frameworkcontroller_gang_missing_tasks",
            "Tasks (Pods of other controllers) for which gangs wait that were never complete, by what they lack: a "
            "Pod, or an address.",
            "reason",
            missing,
            missing,
        )
        yield GaugeMetricFamily(
            "frameworkcontroller_gang_oldest_wait_timestamp_seconds",
            "Unix time since which the oldest of these gangs waits, 0 if there is none.",
            value=min((gang.since.timestamp() for gang in waiting if gang.since is not None), default=0),
        )


class _Seconds(Collector):
    """What the time of Frameworks is spent on: each of those that are known adds a second a second to its account."""

    def __init__(self, known: _Frameworks) -> None:
        self._known, self._at = known, time.monotonic()
        self._scraped_at = self._at
        self._frameworks: Tally[str] = Tally()
        self._seconds = dict.fromkeys(map(str, LedgerState), 0.0)

    def move(self, before: str, after: str) -> str:
        """Note that the time of a Framework is spent on something else from now on, or on nothing (""); return that."""
        after = after if after in self._seconds else ""
        if before != after:
            self._go_on()
            self._frameworks[before] -= 1
            self._frameworks[after] += 1
        return after

    def begin(self) -> None:
        """Begin with no Frameworks: another engine tells of them, or none."""
        self._go_on()
        self._frameworks.clear()
        self._scraped_at = self._at

    def _go_on(self) -> None:
        passed = time.monotonic() - self._at
        self._at += passed
        for name in self._seconds:
            self._seconds[name] += passed * self._frameworks[name]

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        text = "Seconds that Frameworks have spent, by what on."
        family = CounterMetricFamily("frameworkcontroller_framework_seconds", text, labels=["state"])
        self._go_on()
        # Those at rest are counted at each scrape alone: they change seldom.
        resting = sum(state is not State.COMPLETED for state, _ in self._known.at_rest())
        self._seconds[LedgerState.QUEUED] += resting * (self._at - self._scraped_at)
        self._scraped_at = self._at
        for name, seconds in self._seconds.items():
            family.add_metric([name], seconds)
        yield family
        yield GaugeMetricFamily(
            "frameworkcontroller_hung_frameworks",
            "Frameworks whose gang makes no progress now.",
            value=self._frameworks[LedgerState.HUNG],
        )


class Metrics:
    """A registry of its own, so that several controllers in one process do not collide.

    `codes` are the completion codes of failed Pods that the settings define.
    """

    def __init__(self, codes: Iterable[CodeInfo] = ()) -> None:
        self._codes: set[tuple[int | None, str]] = {(code, phrase) for code, (phrase, _) in PREDEFINED.items()}
        self._codes |= {(info.code, info.phrase) for info in codes}
        self._registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        GCCollector(registry=registry)
        self.frameworks = _Frameworks()
        registry.register(self.frameworks)
        self.seconds = _Seconds(self.frameworks)
        registry.register(self.seconds)
        counter, gauge = partial(Counter, registry=registry), partial(Gauge, registry=registry)
        histogram = partial(Histogram, registry=registry)
        queue = {"name": CONTROLLER, "controller": CONTROLLER}
        self._depth = gauge("workqueue_depth", "Frameworks that wait for a decision.", queue).labels(**queue)
        self.queue_adds = counter("workqueue_adds", "Frameworks that were queued.", queue).labels(**queue)
        self.queue_seconds = histogram(
            "workqueue_queue_duration_seconds", "How long a Framework waited for a decision.", queue, buckets=_FAST
        ).labels(**queue)
        self._work_seconds = histogram(
            "workqueue_work_duration_seconds", "How long a decision took.", queue, buckets=_FAST
        ).labels(**queue)
        self.retries = counter("workqueue_retries", "Requests that failed and are tried again.", queue).labels(**queue)
        results = counter("controller_runtime_reconcile", "Decisions by result.", ("controller", "result"))
        self._results = {result: results.labels(CONTROLLER, result) for result in ("success", "error", "requeue_after")}
        self._errors = counter("controller_runtime_reconcile_errors", "Decisions that failed.", ("controller",)).labels(
            CONTROLLER
        )
        self._reconcile_seconds = histogram(
            "controller_runtime_reconcile_time_seconds", "How long a decision took.", ("controller",), buckets=_FAST
        ).labels(CONTROLLER)
        self._requests = counter("rest_client_requests", "Requests by status code.", ("code", "method", "host"))
        self._request_seconds = histogram(
            "rest_client_request_duration_seconds", "Until the status line.", ("verb", "host"), buckets=_REQUEST
        )
        self._attempts = counter("frameworkcontroller_attempts", "Attempts that were started.", ("kind",))
        self._completions = counter(
            "frameworkcontroller_attempt_completions", "Attempts that ended.", ("kind", "code", "phrase")
        )
        self._start = histogram(
            "frameworkcontroller_gang_start_seconds",
            "From the start of a Framework attempt until all its Pods are created, all have an IP, the gate is open.",
            ("phase",),
            buckets=_START,
        )
        self._release = histogram(
            "frameworkcontroller_gang_release_seconds",
            "From the last address or arrival of a gang until the roster that opens its gate was written.",
            buckets=_RELEASE,
        )
        self._restarts = counter(
            "frameworkcontroller_gang_restarts",
            "Restarts of gangs in their Pods, by what has ended the epoch.",
            ("reason",),
        )
        self._restart = histogram(
            "frameworkcontroller_gang_restart_seconds",
            "From the end of an epoch of a gang until its gate is open again, and until its applications run.",
            ("phase",),
            buckets=_START,
        )
        self._hangs = counter("frameworkcontroller_gang_hangs", "Times that a gang was found to make no progress.")
        self.group_seconds = histogram(
            "frameworkcontroller_gang_scheduling_seconds",
            "From the creation of a group of Pods until its scheduler had a place for all of them.",
            buckets=_START,
        )
        self.leads = gauge("leader_election_master_status", "1 while this replica holds the lease.", ("name",))
        self._quarantined = gauge(
            "frameworkcontroller_quarantined_frameworks", "Frameworks that raised an error and wait to be tried again."
        )
        self._undecodable = gauge(
            "frameworkcontroller_undecodable_objects",
            "Objects that cannot be read and are left out, by resource.",
            ("resource",),
        )
        self._status_failures = counter(
            "frameworkcontroller_status_write_failures",
            "Writes of a status that the API server did not take, by outcome, and by status code where that is final.",
            ("outcome", "code"),
        )
        self.events_dropped = gauge(
            "frameworkcontroller_events_dropped", "Events that were not written because of their number."
        )
        self.dropped_lines = gauge(
            "frameworkcontroller_log_lines_dropped",
            "Lines of the log, history snapshots among them, that were dropped because their reader was too slow.",
        )

    def watch(
        self,
        reconcilers: Callable[[], Iterable[FrameworkReconciler]] = tuple,
        at_rest: Callable[[], Iterable[tuple[State, bool]]] = tuple,
        queue: Sized = (),
        quarantined: Callable[[], int] = int,
        undecodable: Callable[[], dict[str, int]] = dict,
    ) -> None:
        """Read these at each scrape, and nothing that was read before: it would keep a term that has ended.

        They are the Frameworks, the states of those at rest, how many wait for a decision, how many are in quarantine,
        and objects by resource that cannot be read.
        """
        self.frameworks.reconcilers, self.frameworks.at_rest, self.frameworks.foreign = reconcilers, at_rest, tuple
        self._depth.set_function(lambda: len(queue))
        self._quarantined.set_function(quarantined)
        self._undecodable.clear()
        for resource in undecodable():
            self._undecodable.labels(resource).set_function(partial(lambda at: undecodable()[at], resource))
        self.seconds.begin()

    def finished(self, *, method: str, host: str, code: str, seconds: float) -> None:
        """Count one HTTP exchange that has ended (see `frameworkkube.http.transport.RequestObserver`)."""
        self._requests.labels(code, method, host).inc()
        self._request_seconds.labels(method, host).observe(seconds)

    def reconciled(self, seconds: float, *, again: bool) -> None:
        """Count one decision about a Framework; `again`: it asked to be decided on at a later time."""
        self._results["requeue_after" if again else "success"].inc()
        self._reconcile_seconds.observe(seconds)
        self._work_seconds.observe(seconds)

    def reconcile_failed(self) -> None:
        """Count a Framework that could not be decided on."""
        self._results["error"].inc()
        self._errors.inc()

    def status_write_failed(self, outcome: Outcome) -> None:
        """Count a write of a status that had another outcome than Done."""
        code = outcome.code if isinstance(outcome, Refused) else 404 if isinstance(outcome, Missing) else ""
        self._status_failures.labels(type(outcome).__name__, str(code)).inc()

    def reported(self, report: Report) -> None:
        """Count what a pass reports, or observe how long it took."""
        match report:
            case Transition(kind, after=after, reason=reason, code=code):
                if after is State.CREATION_REQUESTED:
                    self._attempts.labels(kind).inc()
                elif after is State.ATTEMPT_COMPLETED:
                    # Applications choose exit codes, and each value of a label is kept for ever.
                    known = (code, reason) in self._codes
                    phrase = reason if known or reason == UNRECOGNIZED_PHRASE else OTHER
                    self._completions.labels(kind, str(code) if known else OTHER, phrase).inc()
            case Milestone("released", seconds):
                self._release.observe(seconds)
            case Milestone(phase, seconds):
                durations = self._restart if phase.startswith("restart-") else self._start
                durations.labels(phase.removeprefix("restart-")).observe(seconds)
            case GangRestart():
                self._restarts.labels(report.reason).inc()
            case Hang():
                self._hangs.inc()

    def text(self) -> bytes:
        """Return the text that a scrape reads."""
        return generate_latest(self._registry)
