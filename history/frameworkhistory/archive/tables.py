"""The tables of the archive, by SQLAlchemy Core, for SQLite and PostgreSQL alike.

Times are seconds since 1970 in UTC. Documents are JSON, compressed by zlib. What is not known is NULL, and a `gap` says
in a sentence what of a row could not be seen. Everything goes with its Framework.
"""

from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
)

from frameworkcontroller.api.states import LedgerState

METADATA: Final = MetaData()
NUMBER: Final = BigInteger().with_variant(Integer, "sqlite")
"""Of a row: SQLite gives out numbers for this type alone."""
SPENT: Final = (*LedgerState, "lost")
"""The columns of a ledger: seconds by what they were spent on, and those that a failure has made void."""


def _spent() -> list[Column[float]]:
    return [Column(state, Double, nullable=state == "lost", default=0.0) for state in SPENT]


def _framework(*, primary_key: bool = True) -> Column[int]:
    return Column("framework", ForeignKey("frameworks.id", ondelete="CASCADE"), primary_key=primary_key)


def _end() -> list[Column[Any]]:
    """How an attempt has ended: the code, its phrase, Succeeded or Failed, what is known of that, and the reason."""
    return [
        Column("code", Integer),
        Column("phrase", String(256)),
        Column("result", String(16)),
        Column("attributes", String(256)),
        Column("diagnostics", Text),
    ]


FRAMEWORKS: Final = Table(
    "frameworks",
    METADATA,
    Column("id", NUMBER, primary_key=True),
    Column("uid", String(64), nullable=False, unique=True),
    Column("namespace", String(63), nullable=False),
    Column("name", String(253), nullable=False),
    Column("person", String(253), nullable=False, default=""),
    Column("created", Double, nullable=False),
    Column("completed", Double),
    Column("deleted", Double),
    Column("seen", Double, nullable=False),
    Column("version", String(64), nullable=False),
    Column("generation", BigInteger, nullable=False, default=0),
    Column("state", String(32), nullable=False, default=""),
    Column("attempts", Integer, nullable=False, default=0),
    Column("restarts", Integer, nullable=False, default=0),
    Column("tasks", Integer, nullable=False, default=0),
    Column("gpus", Integer, nullable=False, default=0),
    Column("ready", String(32), nullable=False, default=""),
    *_end(),
    *_spent(),
    Column("gap", Text, nullable=False, default=""),
    Column("document", LargeBinary, nullable=False),
    Index("frameworks_created", "created", "id"),
    Index("frameworks_namespace", "namespace", "created", "id"),
    Index("frameworks_name", "name", "created"),
    Index("frameworks_person", "person", "created"),
    Index("frameworks_state", "state", "created"),
    Index("frameworks_result", "result", "created"),
    Index("frameworks_completed", "completed"),
)
"""One row for each Framework instance; `document` is the newest state without its Tasks."""

WHOLES: Final = Table("wholes", METADATA, _framework(), Column("document", LargeBinary, nullable=False))
"""The newest state with all its Tasks, written at the end of attempts, at the end, and now and then."""

LABELS: Final = Table(
    "labels",
    METADATA,
    _framework(),
    Column("key", String(317), primary_key=True),
    Column("value", String(63), nullable=False),
    Index("labels_value", "key", "value", "framework"),
)

SPECS: Final = Table(
    "specs",
    METADATA,
    _framework(),
    Column("generation", BigInteger, primary_key=True),
    Column("seen", Double, nullable=False),
    Column("document", LargeBinary, nullable=False),
)

ATTEMPTS: Final = Table(
    "attempts",
    METADATA,
    _framework(),
    Column("attempt", Integer, primary_key=True),
    Column("generation", BigInteger, nullable=False, default=0),
    Column("namespace", String(63), nullable=False),
    Column("started", Double),
    Column("ran", Double),
    Column("ended", Double),
    Column("trigger", String(128), nullable=False, default=""),
    Column("tasks", Integer, nullable=False, default=0),
    Column("gpus", Integer, nullable=False, default=0),
    Column("restarts", Integer, nullable=False, default=0),
    *_end(),
    *_spent(),
    Column("roster", LargeBinary),
    Column("gap", Text, nullable=False, default=""),
    Index("attempts_ended", "ended", "namespace"),
)
"""Attempts of Frameworks, from 0; `trigger` is the Task that has decided the end, `roster` the last one."""

EPOCHS: Final = Table(
    "epochs",
    METADATA,
    _framework(),
    Column("attempt", Integer, primary_key=True),
    Column("epoch", Integer, primary_key=True),
    Column("began", Double),
    Column("reason", String(32), nullable=False, default=""),
    Column("task", String(128), nullable=False, default=""),
    Column("code", Integer),
    Column("message", Text, nullable=False, default=""),
    Column("gap", Text, nullable=False, default=""),
)
"""Restarts of a gang in its Pods: when the epoch began, and why the one before it has ended."""

RUNS: Final = Table(
    "runs",
    METADATA,
    _framework(),
    Column("attempt", Integer, primary_key=True),
    Column("role", String(63), primary_key=True),
    Column("index", Integer, primary_key=True),
    Column("run", Integer, primary_key=True),
    Column("namespace", String(63), nullable=False),
    Column("state", String(32), nullable=False, default=""),
    Column("pod", String(253), nullable=False, default=""),
    Column("pod_uid", String(64), nullable=False, default=""),
    Column("node", String(253), nullable=False, default=""),
    Column("ip", String(64), nullable=False, default=""),
    Column("started", Double),
    Column("ran", Double),
    Column("ended", Double),
    *_end(),
    Column("containers", Text, nullable=False, default=""),
    Column("gap", Text, nullable=False, default=""),
    Index("runs_ended", "ended", "namespace"),
    Index("runs_pod", "pod_uid"),
)
"""Attempts of Tasks, from 0; `containers` is JSON of how they have ended."""

SPANS: Final = Table(
    "spans",
    METADATA,
    _framework(),
    Column("began", Double, primary_key=True),
    Column("attempt", Integer, nullable=False),
    Column("state", String(16), nullable=False),
    Column("ended", Double),
)
"""What a Framework spent its time on (`LedgerState`), from when to when."""

EVENTS: Final = Table(
    "events",
    METADATA,
    _framework(),
    Column("uid", String(64), primary_key=True),
    Column("first", Double, nullable=False),
    Column("last", Double, nullable=False),
    Column("count", Integer, nullable=False, default=1),
    Column("type", String(16), nullable=False, default=""),
    Column("reason", String(128), nullable=False, default=""),
    Column("message", Text, nullable=False, default=""),
    Column("object", String(317), nullable=False, default=""),
)

LOGS: Final = Table(
    "logs",
    METADATA,
    _framework(),
    Column("pod_uid", String(64), primary_key=True),
    Column("container", String(63), primary_key=True),
    Column("restart", Integer, primary_key=True),
    Column("attempt", Integer, nullable=False),
    Column("role", String(63), nullable=False),
    Column("index", Integer, nullable=False),
    Column("run", Integer, nullable=False),
    Column("epoch", Integer, nullable=False, default=0),
    Column("key", String(512), nullable=False, default=""),
    Column("bytes", BigInteger, nullable=False, default=0),
    Column("is_whole", Boolean, nullable=False, default=True),
    Column("taken", Double, nullable=False),
    Column("gap", Text, nullable=False, default=""),
    Index("logs_task", "framework", "attempt", "role", "index"),
)
"""The log of one run of a container: where it is stored ("": it is not, and `gap` says why), and its plain bytes."""

GAPS: Final = Table(
    "gaps",
    METADATA,
    Column("id", NUMBER, primary_key=True),
    Column("began", Double, nullable=False),
    Column("ended", Double, nullable=False),
    Column("what", Text, nullable=False),
)
"""Times in which nothing was followed."""

MARKS: Final = Table(
    "marks", METADATA, Column("key", String(64), primary_key=True), Column("value", Text, nullable=False)
)
"""What the archive remembers of itself, such as when it was last at work."""
