"""What one look at a Framework adds to the archive, as rows."""

from dataclasses import dataclass, field
from typing import Any, TypeAlias

Row: TypeAlias = dict[str, Any]
"""A row of a table by its columns, without the number of its Framework."""


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
