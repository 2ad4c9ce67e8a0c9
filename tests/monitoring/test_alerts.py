"""The rules as Prometheus reads them: each alert is active when it should be, and not before."""

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from frameworkdemo.manifests import REPOSITORY
from localcluster import SetupError, packages
from testkit.waiting import patience
from tests.support.clusters import is_required
from tests.support.monitoring import ALERTS, RULES, panels

Promtool = Callable[..., str]

MANUAL = REPOSITORY / "docs" / "operate" / "monitoring.md"
MINUTES = 120
Series = dict[str, str]


def histogram(metric: str, within: str, labels: str = "") -> Series:
    """Ten observations a minute, all at most `within` and above the next lower bucket."""
    return {
        f'{metric}_bucket{{{labels}le="0.001"}}': f"0+0x{MINUTES}",
        f'{metric}_bucket{{{labels}le="{within}"}}': f"0+10x{MINUTES}",
        f'{metric}_bucket{{{labels}le="+Inf"}}': f"0+10x{MINUTES}",
    }


def always(series: str, value: float) -> Series:
    return {series: f"{value}x{MINUTES}"}


def growing(series: str) -> Series:
    return {series: f"0+10x{MINUTES}"}


def waits(metric: str, long: str, short: str) -> tuple[Series, Series]:
    return histogram(metric, long), histogram(metric, short)


def grows(series: str) -> tuple[Series, Series]:
    return growing(series), always(series, 7)


def is_there(series: str) -> tuple[Series, Series]:
    return always(series, 1), always(series, 0)


LEADER = "leader_election_master_status"
WRITES = "frameworkcontroller_status_write_failures_total"
REQUESTS = "rest_client_requests_total"
SINCE = "frameworkcontroller_gang_oldest_wait_timestamp_seconds"
MISSING = 'frameworkcontroller_gang_missing_tasks{reason="not-ready"}'
ENDED = "frameworkcontroller_attempt_completions_total"
HANGS = "frameworkcontroller_gang_hangs_total"
HUNG = "frameworkcontroller_hung_frameworks"
EXPIRY = "frameworkinjector_certificate_expiry_timestamp_seconds"
REVIEWS = "frameworkinjector_requests_total"
CLOSED = "frameworkinjector_connections_closed_total"
# What makes each alert active, and something similar that does not.
CASES: dict[str, tuple[Series, Series]] = {
    "FrameworkControllerDown": ({}, growing('controller_runtime_reconcile_total{controller="framework"}')),
    "FrameworkControllerNoLeader": (
        always(f'{LEADER}{{pod="a"}}', 0) | always(f'{LEADER}{{pod="b"}}', 0),
        always(f'{LEADER}{{pod="a"}}', 1) | always(f'{LEADER}{{pod="b"}}', 0),
    ),
    "FrameworkControllerLeaseLost": (
        {f'{LEADER}{{pod="a"}}': f"0x{MINUTES - 30} " + "1 1 0 0 " * 7},
        {f'{LEADER}{{pod="a"}}': f"0x{MINUTES - 30} 1x30"},
    ),
    "FrameworkControllerQueueWaits": waits("workqueue_queue_duration_seconds", "10.0", "0.1"),
    "FrameworkControllerReconcileErrors": grows("controller_runtime_reconcile_errors_total"),
    "FrameworkControllerQuarantine": is_there("frameworkcontroller_quarantined_frameworks"),
    "FrameworkControllerUndecodable": is_there('frameworkcontroller_undecodable_objects{resource="pods"}'),
    "FrameworkControllerStatusWritesFail": (
        growing(f'{WRITES}{{outcome="Refused",code="413"}}'),
        growing(f'{WRITES}{{outcome="Missing",code="404"}}'),
    ),
    "FrameworkControllerRequestsFail": (
        growing(f'{REQUESTS}{{code="<error>"}}') | growing(f'{REQUESTS}{{code="200"}}'),
        growing(f'{REQUESTS}{{code="409"}}') | growing(f'{REQUESTS}{{code="200"}}'),
    ),
    "FrameworkControllerEventsDropped": grows("frameworkcontroller_events_dropped"),
    "FrameworkGangGivesUp": (
        growing(f'{ENDED}{{kind="framework",code="201"}}'),
        growing(f'{ENDED}{{kind="framework",code="-210"}}'),
    ),
    # The time of a test begins at 0, which is no time of a gang.
    "FrameworkGangWaits": (always(SINCE, 1) | always(MISSING, 3), always(SINCE, 0) | always(MISSING, 0)),
    "FrameworkGangStartSlow": (
        histogram("frameworkcontroller_gang_start_seconds", "1800.0", 'phase="open",'),
        histogram("frameworkcontroller_gang_start_seconds", "1800.0", 'phase="created",'),
    ),
    "FrameworkGangReleaseSlow": waits("frameworkcontroller_gang_release_seconds", "30.0", "1.0"),
    "FrameworkGangHangs": (
        {HANGS: f"0x{MINUTES - 10} 1x10"} | always(HUNG, 0),
        {HANGS: f"0x{MINUTES - 30} 1x30"} | always(HUNG, 0),
    ),
    "FrameworkInjectorDown": ({}, always(f'{REVIEWS}{{outcome="injected",reason="injected"}}', 0)),
    "FrameworkInjectorErrors": (
        growing(f'{REVIEWS}{{outcome="refused",reason="internal-error"}}'),
        growing(f'{REVIEWS}{{outcome="refused",reason="bad-value"}}'),
    ),
    "FrameworkInjectorRejects": (
        growing(f'{REVIEWS}{{outcome="rejected",reason="not-http"}}'),
        growing(f'{REVIEWS}{{outcome="refused",reason="bad-value"}}'),
    ),
    "FrameworkInjectorSlow": waits("frameworkinjector_request_duration_seconds", "5.0", "0.5"),
    "FrameworkInjectorConnectionsClosed": (
        {f'{CLOSED}{{reason="evicted"}}': f"0+100x{MINUTES}"},
        {f'{CLOSED}{{reason="silent"}}': f"0+100x{MINUTES}"},
    ),
    "FrameworkInjectorCertificateExpires": (always(EXPIRY, 3600 * 24), always(EXPIRY, 3600 * 24 * 30)),
    "FrameworkVersionSkew": grows("frameworkinjector_version_skew_total"),
    "FrameworkHistoryDown": ({}, always("frameworkhistory_frameworks_followed", 0)),
    "FrameworkHistoryBehind": (
        always("frameworkhistory_seconds_behind", 3600),
        always("frameworkhistory_seconds_behind", 60),
    ),
}


def minutes(alert: dict[str, Any]) -> int:
    """For how long it must hold."""
    return int(alert["for"].removesuffix("m"))


@pytest.fixture(scope="module")
def promtool() -> Promtool:
    """Runs promtool, which must succeed, and is installed if it is missing.

    Without root its tests are skipped, or fail where a cluster is required.
    """
    try:
        packages.require(["promtool"])
    except SetupError as error:
        if is_required():
            raise
        pytest.skip(str(error))

    def run(*words: object) -> str:
        command = ["promtool", *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=patience(120))
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


def case(name: str, series: Series, expected: int) -> dict[str, Any]:
    """Return a test of promtool: whether an alert is active at the end, and not before its time."""
    active = f'ALERTS{{alertname="{name}",alertstate="firing"}}'
    series = series or always("something_else", 1)
    times = ((minutes(ALERTS[name]) - 1, 0), (MINUTES - 1, expected))
    counted = {"expr": f"count({active}) or vector(0)"}
    return {
        "name": f"{name}: {expected}",
        "interval": "1m",
        "input_series": [{"series": one, "values": values} for one, values in series.items()],
        "promql_expr_test": [
            {**counted, "eval_time": f"{minute}m", "exp_samples": [{"labels": "{}", "value": value}]}
            for minute, value in times
        ],
    }


def test_promtool_accepts_the_rules_and_the_queries_of_the_dashboard_and_the_manual(
    promtool: Promtool, tmp_path: Path
) -> None:
    assert f"{len(ALERTS)} rules found" in promtool("check", "rules", "--lint-fatal", RULES)
    manual = re.findall(r"```promql\n(.*?)```", MANUAL.read_text(), re.DOTALL)
    assert manual
    queries = [query.replace("$__rate_interval", "5m") for query in (*manual, *panels().values())]
    rules = [{"record": f"query:{number}", "expr": query} for number, query in enumerate(queries)]
    file = tmp_path / "rules.yaml"
    # JSON is YAML.
    file.write_text(json.dumps({"groups": [{"name": "queries", "rules": rules}]}))
    promtool("check", "rules", file)


def test_each_alert_is_active_when_it_should_be_and_says_what_a_gang_waits_for(
    promtool: Promtool, tmp_path: Path
) -> None:
    assert {*CASES} == {*ALERTS}
    cases = {name: (case(name, active, 1), case(name, other, 0)) for name, (active, other) in CASES.items()}
    name, summary = "FrameworkGangWaits", "A gang has waited for more than 30 minutes; 3 Tasks are missing: not-ready."
    shown = ALERTS[name]["annotations"] | {"summary": summary}
    expected = {"exp_labels": {"severity": "warning", "reason": "not-ready"}, "exp_annotations": shown}
    cases[name][0]["alert_rule_test"] = [{"eval_time": "1h", "alertname": name, "exp_alerts": [expected]}]
    file = tmp_path / "rules_test.yaml"
    tests = [one for pair in cases.values() for one in pair]
    tests.append(case("FrameworkGangHangs", always(HANGS, 1) | always(HUNG, 1), 1))  # found long ago
    file.write_text(json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests}))
    promtool("test", "rules", file)


def test_each_alert_says_how_grave_it_is_what_it_means_and_what_to_do_and_the_manual_says_the_same() -> None:
    rows = []
    for name, alert in ALERTS.items():
        said = alert["annotations"]
        assert alert["labels"]["severity"] in {"critical", "warning", "info"}, name
        assert minutes(alert) > 0, name
        assert {*said} == {"summary", "description", "runbook"}, name
        assert said["runbook"] == "docs/operate/monitoring.md#alerts", name
        meaning, action = said["description"].split("\n")
        assert all(text.endswith(".") for text in (said["summary"], meaning, action)), name
        assert "|" not in meaning + action, f"{name}: these are cells of the table"
        rows.append(f"| `{name}` | {alert['labels']['severity']} | {minutes(alert)} min | {meaning} | {action} |")
    assert re.findall(r"^\| `Framework.*", MANUAL.read_text(), re.MULTILINE) == rows
