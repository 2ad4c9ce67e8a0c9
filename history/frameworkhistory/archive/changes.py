"""What one look at a Framework adds to the archive, as rows, and what is known of it after that."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from frameworkcontroller.api.status import TaskStatus

Row: TypeAlias = dict[str, Any]
"""A row of a table by its columns, without what it has of its Framework: number, namespace and time of creation."""


@dataclass
class Changes:
    """Rows of one Framework: a row whose keys are known is changed in the columns that it names, any other is added.

    Attributes:
        uid: Of the Framework.
        namespace: Where the rows come from: they are of no Framework of another one, whatever UID they name.
        framework: Its own row. Without it the others belong to one that is known; if it is not, they are dropped.
        whole: Its newest state with all Tasks, as JSON, None to leave it as it is.
        labels: All that it has, None to leave them as they are.
    """

    uid: str
    namespace: str
    framework: Row | None = None
    whole: bytes | None = None
    labels: dict[str, str] | None = None
    specs: list[Row] = field(default_factory=list)
    attempts: list[Row] = field(default_factory=list)
    epochs: list[Row] = field(default_factory=list)
    runs: list[Row] = field(default_factory=list)
    spans: list[Row] = field(default_factory=list)
    events: list[Row] = field(default_factory=list)
    logs: list[Row] = field(default_factory=list)


@dataclass(frozen=True)
class Known:
    """The newest of what is kept of a Framework, from which its next state differs.

    Attributes:
        attempt: The last attempt, -1 if there is none.
        is_open: Whether its end is not known.
        runs: As read from the archive, the last attempt of each Task in it by role and index, and whether its end is
            known; nothing once a state was seen since.
        tasks: As seen since, by role and index.
        span: The state that its time goes to, and since when in seconds; None if it is over, or not known.
        seen: Until when, in seconds, nothing of it was missed; 0 if nothing is since it was read.
        whole: When its state was last kept with all Tasks, in seconds.
        is_over: It is Completed, or gone.
    """

    attempt: int = -1
    is_open: bool = False
    epoch: int = -1
    generation: int = -1
    runs: Mapping[tuple[str, int], tuple[int, bool]] = field(default_factory=dict)
    tasks: Mapping[tuple[str, int], TaskStatus] = field(default_factory=dict)
    span: tuple[str, float] | None = None
    seen: float = 0.0
    whole: float = 0.0
    is_over: bool = False
