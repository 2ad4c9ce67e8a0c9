"""The durations of a run, as a value for JSON and as lines for people.

All durations are in seconds; milestones count from the apply.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from frameworkdemo.picture.state import RunState, StepStatus
from frameworkdemo.picture.text import describe_outcome, format_duration

MILESTONES = {
    "created": "all Pods created",
    "addressed": "all Pods with an IP",
    "opened": "gate open",
    "started": "training started",
    "completed": "Completed",
}
"""The milestones: their names in the JSON, and their names for people."""


@dataclass(frozen=True)
class Summary:
    """The durations and the outcome of a run; its fields are those of the JSON.

    Attributes:
        outcome: The result of the Framework, or its state.
        succeeded: Whether the Framework succeeded.
        retries: How often the Framework was retried.
        phases: The seconds of each step, in order.
        parts: The seconds of each part, by `step: part`, in order.
        milestones: The seconds from the apply; None for a milestone that was not reached; empty without an apply.
        total: The seconds from the start of the command to its end.
    """

    outcome: str
    succeeded: bool
    retries: int
    phases: dict[str, float]
    parts: dict[str, float]
    milestones: dict[str, float | None]
    total: float


def summarize(state: RunState, now: float) -> Summary:
    """Return the summary of a run as it stands at `now` (seconds since the epoch)."""
    return Summary(
        outcome=describe_outcome(state) if state.applied is not None else "not applied",
        succeeded=state.succeeded,
        retries=state.retries,
        phases={s.name: round(s.seconds(now), 3) for s in state.steps if s.status is not StepStatus.PLANNED},
        parts={f"{w.step}: {w.name}": round(w.seconds(now), 3) for w in state.parts},
        milestones=_milestones(state),
        total=round(now - state.began, 3),
    )


def as_json(summary: Summary) -> str:
    """Return the summary as indented JSON that ends with a newline."""
    return json.dumps(asdict(summary), indent=2) + "\n"


def as_lines(summary: Summary) -> list[str]:
    """Return the summary as the lines of a plain-text table."""
    lines = [f"Framework: {summary.outcome}" + (f", after {summary.retries} retries" if summary.retries else "")]
    if summary.milestones:
        lines.append("from apply to:")
    for name, seconds in summary.milestones.items():
        lines.append(f"  {MILESTONES[name]:<20} {'-' if seconds is None else format_duration(seconds):>12}")
    lines.append("steps:")
    lines.extend(f"  {name:<20} {format_duration(seconds):>12}" for name, seconds in summary.phases.items())
    lines.append(f"  {'all together':<20} {format_duration(summary.total):>12}")
    return lines


def _milestones(state: RunState) -> dict[str, float | None]:
    if state.applied is None:
        return {}
    times: dict[str, float | None] = {name: getattr(state, name) for name in MILESTONES}
    return {name: None if at is None else round(at - state.applied, 3) for name, at in times.items()}
