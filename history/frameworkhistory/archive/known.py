"""What the archive knows of Frameworks, for whom follows them again after a pause."""

from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Engine, func, select

from frameworkhistory.archive.tables import ATTEMPTS, EPOCHS, FRAMEWORKS, RUNS, SPANS, SPECS


@dataclass(frozen=True)
class Known:
    """The newest of what is kept of a Framework, from which the next state differs.

    Attributes:
        attempt: The last attempt, -1 if there is none.
        is_open: Whether its end is not known.
        runs: The last attempt of each Task in it, by role and index, and whether its end is known.
        span: The state that its time goes to, and since when in seconds; None if it is over, or not known.
        seen: Until when, in seconds, nothing of it was missed; 0 if nothing is since it was read.
    """

    attempt: int = -1
    is_open: bool = False
    epoch: int = -1
    generation: int = -1
    runs: dict[tuple[str, int], tuple[int, bool]] = field(default_factory=dict)
    span: tuple[str, float] | None = None
    seen: float = 0.0


def load(engine: Engine, uid: str, at_work: float) -> Known:
    """Read what is known of a Framework, which was followed until `at_work`; an empty value if nothing is."""
    with engine.connect() as connection:

        def newest(column: Any, *where: Any) -> int:
            return connection.scalar(select(func.coalesce(func.max(column), -1)).where(*where)) or 0

        found = connection.execute(select(FRAMEWORKS.c.id, FRAMEWORKS.c.seen).where(FRAMEWORKS.c.uid == uid)).first()
        if found is None:
            return Known()
        number = found.id
        last = (
            select(ATTEMPTS.c.attempt, ATTEMPTS.c.ended, ATTEMPTS.c.gap)
            .where(ATTEMPTS.c.framework == number)
            .order_by(ATTEMPTS.c.attempt.desc())
            .limit(1)
        )
        attempt, ended, gap = connection.execute(last).first() or (-1, None, "")
        runs = RUNS.c
        rows = connection.execute(
            select(runs.role, runs.index, runs.run, runs.ended)
            .where(runs.framework == number, runs.attempt == attempt)
            .order_by(runs.run)
        )
        open_span = connection.execute(
            select(SPANS.c.state, SPANS.c.began)
            .where(SPANS.c.framework == number, SPANS.c.ended.is_(None))
            .order_by(SPANS.c.began.desc())
            .limit(1)
        ).first()
        return Known(
            attempt=attempt,
            is_open=attempt >= 0 and ended is None and not gap,
            epoch=newest(EPOCHS.c.epoch, EPOCHS.c.framework == number, EPOCHS.c.attempt == attempt),
            generation=newest(SPECS.c.generation, SPECS.c.framework == number),
            runs={(role, index): (run, ended is not None) for role, index, run, ended in rows},
            span=None if open_span is None else (open_span.state, open_span.began),
            seen=max(found.seen, at_work),
        )
