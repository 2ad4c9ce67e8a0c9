"""What a run took: a value for JSON, lines for people. All durations are seconds; milestones count from the apply."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from demo.model import Demo, Progress
from demo.words import duration, outcome

MILESTONES = {
    "created": "all Pods created",
    "addressed": "all Pods with an IP",
    "opened": "gate open",
    "started": "training started",
    "completed": "Completed",
}
"""Names of milestones in the JSON and how they read."""


@dataclass(frozen=True)
class Summary:
    """What a run took.

    Attributes:
        outcome: How the Framework ended, or stood.
        succeeded: Whether it succeeded.
        retries: How often the gang was started again.
        phases: Each step with its seconds, in order.
        parts: The parts of the steps with their seconds, as "step: part", in order.
        milestones: Seconds from the apply; None where it was not reached; empty if nothing was applied.
        total: From the start of the command to its end.
    """

    outcome: str
    succeeded: bool
    retries: int
    phases: dict[str, float]
    parts: dict[str, float]
    milestones: dict[str, float | None]
    total: float


def summarize(demo: Demo, now: float) -> Summary:
    """Return the summary of a run as it stands at `now` (seconds since the epoch)."""
    return Summary(
        outcome=outcome(demo) if demo.applied is not None else "not applied",
        succeeded=demo.succeeded,
        retries=demo.retries,
        phases={s.name: round(s.seconds(now), 3) for s in demo.steps if s.progress is not Progress.PLANNED},
        parts={f"{w.step}: {w.name}": round(w.seconds(now), 3) for w in demo.works},
        milestones=_milestones(demo),
        total=round(now - demo.began, 3),
    )


def as_json(summary: Summary) -> str:
    """Return the summary as indented JSON with a line's end."""
    return json.dumps(asdict(summary), indent=2) + "\n"


def as_lines(summary: Summary) -> list[str]:
    """Return the summary as lines of a table in plain text."""
    lines = [f"Framework: {summary.outcome}" + (f", after {summary.retries} retries" if summary.retries else "")]
    if summary.milestones:
        lines.append("from apply to:")
    for name, seconds in summary.milestones.items():
        lines.append(f"  {MILESTONES[name]:<20} {'-' if seconds is None else duration(seconds):>12}")
    lines.append("steps:")
    lines.extend(f"  {name:<20} {duration(seconds):>12}" for name, seconds in summary.phases.items())
    lines.append(f"  {'all together':<20} {duration(summary.total):>12}")
    return lines


def _milestones(demo: Demo) -> dict[str, float | None]:
    if demo.applied is None:
        return {}
    times: dict[str, float | None] = {name: getattr(demo, name) for name in MILESTONES}
    return {name: None if at is None else round(at - demo.applied, 3) for name, at in times.items()}
