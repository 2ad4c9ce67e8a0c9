"""The tables of the archive, by SQLAlchemy Core, for SQLite and PostgreSQL alike.

Times are seconds since 1970 in UTC. Documents are JSON, compressed by zlib. What is not known is NULL, and a `gap` says
in a sentence what of a row could not be seen. Everything goes with its Framework, but for what is counted by days.
"""

import zlib
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Dialect,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
)

from frameworkcontroller.api.states import LedgerState

METADATA: Final = MetaData()
NUMBER: Final = BigInteger().with_variant(Integer, "sqlite")
"""Of a row: SQLite gives out numbers for this type alone."""
ONCE: Final[dict[str, Any]] = {"sqlite_with_rowid": False}
"""Of a table whose rows are small: SQLite stores them in the order of their keys, and not a second time."""
DAY: Final = 86_400
"""Seconds."""
SPENT: Final = (*LedgerState, "lost")
"""The columns of a ledger: seconds by what they were spent on, and those that a failure has made void."""


class Words(TypeDecorator[str]):
    """Text that no value can break: of at most so many characters, without NUL, which PostgreSQL does not store.

    Both databases compare it by code points, so that an index serves the search for a beginning.
    """

    impl = Text
    cache_ok = True

    def __init__(self, length: int | None = None) -> None:
        super().__init__()
        self.length = length

    def load_dialect_impl(self, dialect: Dialect) -> Any:  # noqa: D102 -- SQLAlchemy's
        collation = "C" if dialect.name == "postgresql" else None
        return Text(collation=collation) if self.length is None else String(self.length, collation=collation)

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002, D102 -- SQLAlchemy's
        return None if value is None else value[: self.length].replace("\0", "\N{REPLACEMENT CHARACTER}")


class Document(TypeDecorator[bytes]):
    """Bytes that the database has compressed by zlib, and a program plain."""

    impl = LargeBinary
    cache_ok = True

    def process_bind_param(self, value: bytes | None, dialect: Dialect) -> bytes | None:  # noqa: ARG002, D102 -- SQLAlchemy's
        return None if value is None else zlib.compress(value)

    def process_result_value(self, value: bytes | None, dialect: Dialect) -> bytes | None:  # noqa: ARG002, D102 -- SQLAlchemy's
        return None if value is None else zlib.decompress(value)


def _spent() -> list[Column[float]]:
    return [Column(state, Double, nullable=state == "lost", default=0.0) for state in SPENT]


def _framework() -> Column[int]:
    return Column("framework", ForeignKey("frameworks.id", ondelete="CASCADE"), primary_key=True)


def _end() -> list[Column[Any]]:
    """How an attempt has ended: the code, its phrase, Succeeded or Failed, what is known of that, and the reason."""
    return [
        Column("code", Integer),
        Column("phrase", Words(256)),
        Column("result", Words(16)),
        Column("attributes", Words(256)),
        Column("diagnostics", Words()),
    ]


FRAMEWORKS: Final = Table(
    "frameworks",
    METADATA,
    Column("id", NUMBER, primary_key=True),
    Column("uid", Words(64), nullable=False, unique=True),
    Column("namespace", Words(63), nullable=False),
    Column("name", Words(253), nullable=False),
    Column("person", Words(253), nullable=False, default=""),
    Column("created", Double, nullable=False),
    Column("completed", Double),
    Column("deleted", Double),
    Column("seen", Double, nullable=False),
    Column("version", Words(64), nullable=False),
    Column("generation", BigInteger, nullable=False, default=0),
    Column("state", Words(32), nullable=False, default=""),
    Column("attempts", Integer, nullable=False, default=0),
    Column("restarts", Integer, nullable=False, default=0),
    Column("tasks", Integer, nullable=False, default=0),
    Column("gpus", Integer, nullable=False, default=0),
    Column("ready", Words(32), nullable=False, default=""),
    *_end(),
    *_spent(),
    Column("gap", Words(), nullable=False, default=""),
    Column("document", Document(), nullable=False),
    # In the order of a page; what follows `id` is looked at where it stands, without the row.
    Index("frameworks_created", "created", "id", "name"),
    Index("frameworks_namespace", "namespace", "created", "id", "state", "result"),
    Index("frameworks_name", "name", "namespace", "created", "id"),
    Index("frameworks_person", "person", "created", "id", "namespace", "state", "result"),
    Index("frameworks_state", "state", "created", "id", "result"),
    Index("frameworks_result", "result", "created", "id"),
    Index("frameworks_deleted", "deleted"),
)
"""One row for each Framework instance; `document` is the newest state without its Tasks."""

WHOLES: Final = Table("wholes", METADATA, _framework(), Column("document", Document(), nullable=False))
"""The newest state with all its Tasks, written at the end of attempts, at the end, and now and then."""

LABELS: Final = Table(
    "labels",
    METADATA,
    _framework(),
    Column("key", Words(317), primary_key=True),
    Column("value", Words(63), nullable=False),
    Column("created", Double, nullable=False),
    Index("labels_value", "key", "value", "created", "framework"),
    **ONCE,
)
"""`created` is that of the Framework: a search by a label finds the newest first."""

SPECS: Final = Table(
    "specs",
    METADATA,
    _framework(),
    Column("generation", BigInteger, primary_key=True),
    Column("seen", Double, nullable=False),
    Column("document", Document(), nullable=False),
)

ATTEMPTS: Final = Table(
    "attempts",
    METADATA,
    _framework(),
    Column("attempt", Integer, primary_key=True),
    Column("generation", BigInteger, nullable=False, default=0),
    Column("namespace", Words(63), nullable=False),
    Column("started", Double),
    Column("ran", Double),
    Column("ended", Double),
    Column("trigger", Words(128), nullable=False, default=""),
    Column("tasks", Integer, nullable=False, default=0),
    Column("gpus", Integer, nullable=False, default=0),
    Column("restarts", Integer, nullable=False, default=0),
    *_end(),
    *_spent(),
    Column("roster", Document()),
    Column("gap", Words(), nullable=False, default=""),
    **ONCE,
)
"""Attempts of Frameworks, from 0; `trigger` is the Task that has decided the end, `roster` the last one."""

EPOCHS: Final = Table(
    "epochs",
    METADATA,
    _framework(),
    Column("attempt", Integer, primary_key=True),
    Column("epoch", Integer, primary_key=True),
    Column("began", Double),
    Column("reason", Words(32), nullable=False, default=""),
    Column("task", Words(128), nullable=False, default=""),
    Column("code", Integer),
    Column("message", Words(), nullable=False, default=""),
    Column("gap", Words(), nullable=False, default=""),
    **ONCE,
)
"""Restarts of a gang in its Pods: when the epoch began, and why the one before it has ended."""

RUNS: Final = Table(
    "runs",
    METADATA,
    _framework(),
    Column("attempt", Integer, primary_key=True),
    Column("role", Words(63), primary_key=True),
    Column("index", Integer, primary_key=True),
    Column("run", Integer, primary_key=True),
    Column("namespace", Words(63), nullable=False),
    Column("state", Words(32), nullable=False, default=""),
    Column("pod", Words(253), nullable=False, default=""),
    Column("pod_uid", Words(64), nullable=False, default=""),
    Column("node", Words(253), nullable=False, default=""),
    Column("ip", Words(64), nullable=False, default=""),
    Column("started", Double),
    Column("ran", Double),
    Column("ended", Double),
    *_end(),
    Column("containers", Words(), nullable=False, default=""),
    Column("gap", Words(), nullable=False, default=""),
    **ONCE,
)
"""Attempts of Tasks, from 0; `containers` is JSON of how they have ended."""

SPANS: Final = Table(
    "spans",
    METADATA,
    _framework(),
    Column("began", Double, primary_key=True),
    Column("attempt", Integer, nullable=False),
    Column("state", Words(16), nullable=False),
    Column("ended", Double),
    **ONCE,
)
"""What a Framework spent its time on (`LedgerState`), from when to when."""

EVENTS: Final = Table(
    "events",
    METADATA,
    _framework(),
    Column("uid", Words(64), primary_key=True),
    Column("first", Double, nullable=False),
    Column("last", Double, nullable=False),
    Column("count", Integer, nullable=False, default=1),
    Column("type", Words(16), nullable=False, default=""),
    Column("reason", Words(128), nullable=False, default=""),
    Column("message", Words(), nullable=False, default=""),
    Column("object", Words(317), nullable=False, default=""),
    **ONCE,
)

LOGS: Final = Table(
    "logs",
    METADATA,
    _framework(),
    Column("pod_uid", Words(64), primary_key=True),
    Column("container", Words(63), primary_key=True),
    Column("restart", Integer, primary_key=True),
    Column("attempt", Integer, nullable=False),
    Column("role", Words(63), nullable=False),
    Column("index", Integer, nullable=False),
    Column("run", Integer, nullable=False),
    Column("epoch", Integer, nullable=False, default=0),
    Column("key", Words(512), nullable=False, default=""),
    Column("bytes", BigInteger, nullable=False, default=0),
    Column("is_whole", Boolean, nullable=False, default=True),
    Column("taken", Double, nullable=False),
    Column("gap", Words(), nullable=False, default=""),
    Index("logs_task", "framework", "attempt", "role", "index"),
    **ONCE,
)
"""The log of one run of a container: where it is stored ("": it is not, and `gap` says why), and its plain bytes."""

DAYS: Final = Table(
    "days",
    METADATA,
    Column("day", Integer, primary_key=True),
    Column("namespace", Words(63), primary_key=True),
    Column("attempts", BigInteger, nullable=False),
    Column("failed", BigInteger, nullable=False),
    *(Column(state, Double, nullable=False) for state in SPENT),
    **ONCE,
)
"""What the attempts have spent that ended on a day, counted since 1970 in UTC: seconds times Tasks.

The writer counts here, so that statistics need not look at each attempt.
"""

FAILURES: Final = Table(
    "failures",
    METADATA,
    Column("day", Integer, primary_key=True),
    Column("node", Words(253), primary_key=True),
    Column("namespace", Words(63), primary_key=True),
    Column("phrase", Words(256), primary_key=True),
    Column("code", Integer, primary_key=True, autoincrement=False),
    Column("count", BigInteger, nullable=False),
    **ONCE,
)
"""How many attempts of Frameworks (`node` is "") and of Tasks on nodes have failed on a day, by why; 0: no code."""

GAPS: Final = Table(
    "gaps",
    METADATA,
    Column("id", NUMBER, primary_key=True),
    Column("began", Double, nullable=False),
    Column("ended", Double, nullable=False),
    Column("what", Words(), nullable=False),
)
"""Times in which nothing was followed."""

MARKS: Final = Table(
    "marks", METADATA, Column("key", Words(64), primary_key=True), Column("value", Words(), nullable=False), **ONCE
)
"""What the archive remembers of itself, such as when it was last at work."""
