"""What the metrics count of what happens to Frameworks."""

import gc
import weakref

import pytest

from frameworkcontroller.api.codes import TRANSIENT, UNRECOGNIZED_PHRASE
from frameworkcontroller.api.states import LedgerState, State
from frameworkcontroller.api.status import GangRestart
from frameworkcontroller.core.policies.classification import CodeInfo
from frameworkcontroller.core.status.reports import Milestone, Transition
from frameworkcontroller.engine.observe.metrics import Metrics
from tests.controller.core.values import START

COMPLETIONS = "frameworkcontroller_attempt_completions"


def test_restarts_are_counted_by_reason_and_timed_by_phase() -> None:
    metrics = Metrics()
    metrics.reported(GangRestart(epoch=1, time=START, reason="Exited"))
    for phase, seconds in (("restart-open", 1.5), ("restart-running", 3.0), ("open", 7.0), ("released", 0.2)):
        metrics.reported(Milestone(phase, seconds))
    text = metrics.text().decode()
    for line in (
        'frameworkcontroller_gang_restarts_total{reason="Exited"} 1.0',
        'frameworkcontroller_gang_restart_seconds_sum{phase="open"} 1.5',
        'frameworkcontroller_gang_restart_seconds_sum{phase="running"} 3.0',
        'frameworkcontroller_gang_start_seconds_sum{phase="open"} 7.0',
        "frameworkcontroller_gang_release_seconds_sum 0.2",
    ):
        assert line in text


def test_the_time_of_frameworks_is_summed_by_what_it_is_spent_on(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    metrics = Metrics()

    def seconds() -> dict[str, float]:
        name = "frameworkcontroller_framework_seconds_total"
        lines = [line for line in metrics.text().decode().splitlines() if line.startswith(name)]
        found = {line.split('"')[1]: float(line.split()[-1]) for line in lines}
        assert found.keys() == set(LedgerState)
        return {state: number for state, number in found.items() if number}

    assert seconds() == {}
    one, two = metrics.seconds.move("", "running"), metrics.seconds.move("", "running")
    now = 110.0
    assert metrics.seconds.move(one, "ending") == "ending"
    now = 115.0
    assert seconds() == {"running": 25, "ending": 5}
    assert "frameworkcontroller_hung_frameworks 0.0" in metrics.text().decode()
    two = metrics.seconds.move(two, "hung")
    assert "frameworkcontroller_hung_frameworks 1.0" in metrics.text().decode()
    metrics.seconds.move(two, "")
    metrics.seconds.move("ending", "paused")  # of a later version
    metrics.watch(list, lambda: [(State.CREATION_PENDING, True), (State.COMPLETED, False)], [])
    now = 118.0
    three = metrics.seconds.move("", "gate")
    now = 120.0
    assert seconds() == {"running": 25, "ending": 5, "gate": 2, "queued": 5}
    metrics.watch(tuple, tuple, ())  # the term ends, and the next begins
    now = 130.0
    assert metrics.seconds.move("", three) == "gate"
    now = 131.0
    assert seconds() == {"running": 25, "ending": 5, "gate": 3, "queued": 5}


def test_of_a_term_that_has_ended_nothing_is_read_or_kept() -> None:
    """A replica that had lost its lease kept all caches of its term, for a count of what was in quarantine then."""
    metrics, term = Metrics(), Metrics()
    kept = weakref.ref(term)
    metrics.watch(quarantined=lambda at=term: 3, undecodable=lambda at=term: {"pods": 2})  # type: ignore[misc]
    assert "frameworkcontroller_quarantined_frameworks 3.0" in metrics.text().decode()
    assert 'frameworkcontroller_undecodable_objects{resource="pods"} 2.0' in metrics.text().decode()
    del term
    metrics.watch()
    assert "frameworkcontroller_quarantined_frameworks 0.0" in metrics.text().decode()
    assert "frameworkcontroller_undecodable_objects{" not in metrics.text().decode()
    gc.collect()
    assert kept() is None


def test_exit_codes_that_nobody_defined_share_one_series() -> None:
    preempted = CodeInfo(77, "Preempted", TRANSIENT, ())
    metrics = Metrics((preempted,))

    def ended(code: int, phrase: str) -> None:
        metrics.reported(Transition("task", "pod", State.RUNNING, State.ATTEMPT_COMPLETED, reason=phrase, code=code))

    # On Windows an exit code has 32 bits; one may be that of a pattern that did not match.
    for code in range(-1000, 1000):
        ended(code, UNRECOGNIZED_PHRASE)
    # A status that another configuration has written.
    for code in range(300, 400):
        ended(code, f"Phrase{code}")
    ended(77, "Preempted")
    ended(-101, "PodExternalDeleted")
    series = [line for line in metrics.text().decode().splitlines() if line.startswith(f"{COMPLETIONS}_total{{")]
    assert series == [
        f'{COMPLETIONS}_total{{code="other",kind="task",phrase="ContainerUnrecognizedFailed"}} 2000.0',
        f'{COMPLETIONS}_total{{code="other",kind="task",phrase="other"}} 100.0',
        f'{COMPLETIONS}_total{{code="77",kind="task",phrase="Preempted"}} 1.0',
        f'{COMPLETIONS}_total{{code="-101",kind="task",phrase="PodExternalDeleted"}} 1.0',
    ]
