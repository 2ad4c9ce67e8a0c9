"""The alerts: what holds for how long, what it means, and what to do.

A threshold is a bound that the project's own measurements stay far below, or a number of the program itself, which a
comment names. `tests/monitoring` checks the expressions with promtool, and that each metric exists.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

RUNBOOK: Final = "docs/operate/monitoring.md"
LABELS: Final = {"app.kubernetes.io/name": "frameworkcontroller", "app.kubernetes.io/part-of": "frameworkcontroller"}


@dataclass(frozen=True)
class Alert:
    """One alert.

    Attributes:
        name: In CamelCase, after the name of the program.
        expr: In PromQL; holds where it has a result.
        minutes: For how long it must hold.
        severity: `critical` (somebody must act now), `warning` (in working hours) or `info`.
        summary: One sentence, which may show `$value` and labels.
        meaning: What users notice.
        action: What to do first.
    """

    name: str
    expr: str
    minutes: int
    severity: str
    summary: str
    meaning: str
    action: str


def _p99(metric: str, window: str, selector: str = "") -> str:
    return f"histogram_quantile(0.99, sum by (le) (rate({metric}_bucket{selector}[{window}])))"


WAITS: Final = "max(time() - (frameworkcontroller_gang_oldest_wait_timestamp_seconds > 0))"
CONTROLLER: Final = (
    Alert(
        "FrameworkControllerDown",
        'absent(controller_runtime_reconcile_total{controller="framework"})',
        5,
        "critical",
        "No replica of the controller is scraped.",
        "Nothing is created, retried or completed; running Pods run on.",
        "`kubectl get pods -n frameworkcontroller-system`: their Events and logs; then the target in Prometheus.",
    ),
    Alert(
        "FrameworkControllerNoLeader",
        "sum(leader_election_master_status) < 1",
        # A Lease that nobody renews is taken over within a minute.
        3,
        "critical",
        "No replica of the controller holds the Lease.",
        "As FrameworkControllerDown: the replicas run and wait.",
        "`kubectl describe lease -n frameworkcontroller-system`; the logs of the replicas say which request fails.",
    ),
    Alert(
        "FrameworkControllerLeaseLost",
        "sum(changes(leader_election_master_status[1h])) > 4",
        5,
        "warning",
        "The Lease of the controller changed hands {{ $value | humanize }} times in an hour.",
        "Each change stops decisions for seconds, and the new leader reads everything again.",
        "Look for restarts (`OOMKilled`), throttled CPU, and an API server that answers slowly.",
    ),
    Alert(
        "FrameworkControllerQueueWaits",
        f"{_p99('workqueue_queue_duration_seconds', '10m')} > 1",
        15,
        "warning",
        "1% of the Frameworks wait {{ $value | humanizeDuration }} or longer for a decision.",
        "Pods are created late and retries start late.",
        "Give the controller more CPU; compare `workqueue_depth` and `controller_runtime_reconcile_time_seconds`.",
    ),
    Alert(
        "FrameworkControllerReconcileErrors",
        "sum(increase(controller_runtime_reconcile_errors_total[15m])) > 0",
        5,
        "warning",
        "Decisions about Frameworks fail.",
        "The Frameworks concerned stand still; see FrameworkControllerQuarantine.",
        "Search the log for `level=error`, and report the defect with the traceback.",
    ),
    Alert(
        "FrameworkControllerQuarantine",
        "max(frameworkcontroller_quarantined_frameworks) > 0",
        5,
        "warning",
        "{{ $value }} Frameworks are in quarantine.",
        "They raised an error, stand still, and are tried again more and more rarely.",
        "`kubectl get events -A --field-selector reason=Quarantined` names them and the error.",
    ),
    Alert(
        "FrameworkControllerUndecodable",
        "max by (resource) (frameworkcontroller_undecodable_objects) > 0",
        5,
        "warning",
        "{{ $value }} objects of {{ $labels.resource }} cannot be read.",
        "The controller leaves them out.",
        "Events `Unreadable` name Frameworks; the log names the others. Correct them by `kubectl edit`.",
    ),
    Alert(
        "FrameworkControllerStatusWritesFail",
        # Where the Framework was deleted meanwhile, or the write was not wanted any more, nothing is wrong.
        "sum by (outcome, code)"
        ' (increase(frameworkcontroller_status_write_failures_total{outcome!~"Missing|Dropped"}[5m])) > 0',
        15,
        "critical",
        "Writes of a status fail with {{ $labels.outcome }} {{ $labels.code }}.",
        "A Framework whose status is not stored makes no progress, so that nothing is done twice.",
        "By the code: 403 permissions (`kubectl apply` the Roles again), 413 the status is too large (fewer Tasks, or "
        "`largeFrameworkCompression`), 422 the CRD is older than the controller, none: the API server. `StaleStatus`: "
        "another controller writes to the same Frameworks.",
    ),
    Alert(
        "FrameworkControllerRequestsFail",
        'sum(rate(rest_client_requests_total{code!~"[234].."}[10m]))'
        " / sum(rate(rest_client_requests_total[10m])) > 0.05",
        15,
        "warning",
        "{{ $value | humanizePercentage }} of the controller's requests to the API server fail.",
        "Everything is tried again, and is late.",
        "Look at the API server first, then at the network between the two.",
    ),
    Alert(
        "FrameworkControllerEventsDropped",
        "sum(delta(frameworkcontroller_events_dropped[1h])) > 0",
        15,
        "info",
        "{{ $value | humanize }} Events were dropped in an hour.",
        "`kubectl describe` shows less than has happened. Statuses are not affected.",
        "Look for Frameworks that retry all the time.",
    ),
)
GANGS: Final = (
    Alert(
        "FrameworkGangWaits",
        f"max by (reason) (frameworkcontroller_gang_missing_tasks) > 0 and on () {WAITS} > 1800",
        5,
        "warning",
        "A gang has waited for more than 30 minutes; {{ $value }} Tasks are missing: {{ $labels.reason }}.",
        "`not-created`: the API server takes no more Pods (quota, admission). `not-ready`: Pods are not scheduled, "
        "or do not start. The Pods that do run hold their resources meanwhile.",
        "`kubectl get events -A --field-selector reason=GangWaiting` names the Tasks and why each is missing. "
        "A shorter timeout of the barrier lets gangs give way to each other.",
    ),
    Alert(
        "FrameworkGangStartSlow",
        _p99("frameworkcontroller_gang_start_seconds", "1h", '{phase="open"}') + " > 600",
        15,
        "warning",
        "1% of the gangs need {{ $value | humanizeDuration }} or longer to start.",
        "As the Pods of a gang start together, all of them wait for the last.",
        "Compare the phases: until `created` it is the API server and the controller, until `addressed` scheduling, "
        "images and volumes, until `open` the controller.",
    ),
    Alert(
        "FrameworkGangReleaseSlow",
        f"{_p99('frameworkcontroller_gang_release_seconds', '1h')} > 5",
        15,
        "warning",
        "1% of the complete gangs wait {{ $value | humanizeDuration }} or longer for their roster.",
        "The Pods of a gang are there and wait for the controller.",
        "As FrameworkControllerQueueWaits, and look at the latency of the API server.",
    ),
)
INJECTOR: Final = (
    Alert(
        "FrameworkInjectorDown",
        "absent(frameworkinjector_requests_total)",
        5,
        "critical",
        "No replica of the injector is scraped.",
        "The API server refuses each new Pod with the label; all other Pods are created as ever.",
        "`kubectl get pods -n frameworkcontroller-system`. Leave this group out where no webhook is installed.",
    ),
    Alert(
        "FrameworkInjectorErrors",
        'sum(increase(frameworkinjector_requests_total{reason="internal-error"}[15m])) > 0',
        5,
        "critical",
        "The injector fails on Pods.",
        "These Pods are refused with the code 500; their controllers try again.",
        "The log has the traceback under the `uid` of the request: report the defect.",
    ),
    Alert(
        "FrameworkInjectorRejects",
        'sum(rate(frameworkinjector_requests_total{outcome="rejected"}[10m])) > 0.1',
        15,
        "warning",
        "The injector gets requests that are not reviews.",
        "Something other than the API server calls it, or bodies do not arrive in time.",
        "The label `reason` says what they are; restrict the NetworkPolicy to the address of the API server.",
    ),
    Alert(
        "FrameworkInjectorSlow",
        # The API server gives up after five seconds.
        f"{_p99('frameworkinjector_request_duration_seconds', '10m')} > 1",
        10,
        "warning",
        "1% of the reviews take {{ $value | humanizeDuration }} or longer.",
        "From five seconds on the API server refuses the Pod.",
        "Give the injector more CPU or more replicas.",
    ),
    Alert(
        "FrameworkInjectorConnectionsClosed",
        'sum by (reason) (rate(frameworkinjector_connections_closed_total{reason=~"evicted|refused"}[10m])) > 1',
        15,
        "warning",
        "The injector closes connections: {{ $labels.reason }}.",
        "An attack, or more reviews at a time than the replicas are made for; some Pods are refused and tried again.",
        "Add replicas; if the number of Pods does not explain it, look for the source.",
    ),
    Alert(
        "FrameworkInjectorCertificateExpires",
        # It is renewed a month before.
        "min(frameworkinjector_certificate_expiry_timestamp_seconds) - time() < 7 * 24 * 3600",
        30,
        "critical",
        "The certificate of the injector expires in {{ $value | humanizeDuration }}.",
        "After that the API server refuses each new Pod with the label.",
        "The log says why the renewal fails, often a lost permission on the Secret. With certificates of your own, "
        "renew them (cert-manager: `kubectl describe certificate`).",
    ),
    Alert(
        "FrameworkVersionSkew",
        "sum(increase(frameworkinjector_version_skew_total[15m])) > 0",
        15,
        "warning",
        "The barrier and the controller are more than one minor version apart.",
        "Such a pair is not tested; a gang may not start.",
        "Upgrade the older program. The log of the injector has both versions; an annotation `image` or "
        "`barrier.image` may pin an old barrier.",
    ),
)
GROUPS: Final = {"frameworkcontroller": CONTROLLER, "frameworkcontroller-gangs": GANGS, "frameworkinjector": INJECTOR}


def rules() -> dict[str, Any]:
    """Return the rules as a file of Prometheus."""
    return {"groups": [{"name": name, "rules": [_rule(alert) for alert in alerts]} for name, alerts in GROUPS.items()]}


def prometheus_rule() -> dict[str, Any]:
    """Return the rules as an object of the Prometheus operator."""
    metadata = {"name": "frameworkcontroller", "namespace": "frameworkcontroller-system", "labels": LABELS}
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": metadata,
        "spec": rules(),
    }


def table() -> str:
    """Return the table of the manual."""
    rows = [
        f"| `{alert.name}` | {alert.severity} | {alert.minutes} min | {alert.meaning} | {alert.action} |"
        for alerts in GROUPS.values()
        for alert in alerts
    ]
    return "\n".join(
        ("| alert | severity | after | what it means | what to do |", "| --- | --- | --- | --- | --- |", *rows)
    )


def _rule(alert: Alert) -> dict[str, Any]:
    return {
        "alert": alert.name,
        "expr": alert.expr,
        "for": f"{alert.minutes}m",
        "labels": {"severity": alert.severity},
        "annotations": {
            "summary": alert.summary,
            "description": f"{alert.meaning} {alert.action}",
            "runbook": f"{RUNBOOK}#alerts",
        },
    }
