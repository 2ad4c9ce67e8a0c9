"""What a process says of its progress, as text of a stranger: bounded, cleaned, and never an error. Pure."""

import json
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from frameworkbarrier.text import one_line

MAX_BYTES = 4096
"""Of one report; what is longer says nothing."""
MAX_STEP = 2**53
"""As many as a reader of JSON keeps exact."""
SECTION_CHARACTERS = 40
NUMBERS = 8
"""Named numbers that are kept, such as a loss."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a process has said last."""

    step: int | None = None
    """None: it lives, and has said of no step yet."""
    section: str = ""
    checkpoint: int | None = None
    """The step of its last checkpoint."""
    alive: object = None
    """Anything that changes as long as it lives."""
    thread: str = ""
    """Which thread makes the steps, as `faulthandler` names it."""
    numbers: dict[str, float] = field(default_factory=dict)

    @property
    def says_something(self) -> bool:
        """Whether it is known that the process takes part in the work of the gang."""
        return self.step is not None or bool(self.section or self.thread)


def last_line(data: bytes) -> bytes:
    """Return the last line that is whole; the only one need not end."""
    lines = data.split(b"\n")
    return next(filter(None, map(bytes.strip, reversed(lines[:-1]))), lines[-1].strip())


def read(data: bytes) -> Report | None:
    """Read a number or an object; None of what says nothing."""
    if len(data) > MAX_BYTES:
        return None
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        step = whole(found)
        return None if step is None else Report(step)
    numbers = found.get("numbers")
    named = islice(numbers.items(), NUMBERS) if isinstance(numbers, dict) else ()
    return Report(
        step=whole(found.get("step")),
        section=word(found.get("section"), SECTION_CHARACTERS),
        checkpoint=whole(found.get("checkpoint")),
        alive=found["alive"] if isinstance(found.get("alive"), int | float | str) else None,
        thread=word(found.get("thread"), SECTION_CHARACTERS),
        numbers={word(name, SECTION_CHARACTERS): float(one) for name, one in named if is_number(one)},
    )


def is_number(value: Any) -> bool:
    """Report whether a value of JSON is a number that can be counted with."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= MAX_STEP


def whole(value: Any) -> int | None:
    """Return a step, None of what is none."""
    return int(value) if is_number(value) and value >= 0 else None


def word(value: Any, limit: int) -> str:
    """Return the text in one clean line of so many characters at most, "" of what is no text."""
    return one_line(value, limit) if isinstance(value, str) else ""
