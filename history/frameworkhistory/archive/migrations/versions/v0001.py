"""The first tables."""

from typing import Any

from alembic import op
from sqlalchemy import BigInteger, Boolean, Column, Double, ForeignKey, Integer, LargeBinary, String, Text

revision = "0001"
down_revision = None

NUMBER = BigInteger().with_variant(Integer, "sqlite")
STATES = "queued waiting scheduling starting gate running hung restarting ending backoff"
ONCE = {"sqlite_with_rowid": False}


def columns(names: str, kind: Any, **rules: Any) -> list[Column[Any]]:
    """Return columns of one type that are not NULL, or as the rules say."""
    return [Column(name, kind, **{"nullable": False, **rules}) for name in names.split()]


def words(names: str, length: int | None = None, **rules: Any) -> list[Column[Any]]:
    """Return columns of text that is compared by code points."""
    kinds = (Text(), Text(collation="C")) if length is None else (String(length), String(length, collation="C"))
    return columns(names, kinds[0].with_variant(kinds[1], "postgresql"), **rules)


def keys(names: str, kind: Any = Integer) -> list[Column[Any]]:
    """Return columns of the primary key."""
    return columns(names, kind, primary_key=True, autoincrement=False)


def framework() -> Column[int]:
    """Return the column of the Framework, with which a row goes."""
    return Column("framework", NUMBER, ForeignKey("frameworks.id", ondelete="CASCADE"), primary_key=True)


def end() -> list[Column[Any]]:
    """Return the columns of how an attempt has ended."""
    text = [*words("phrase", 256, nullable=True), *words("result", 16, nullable=True)]
    more = [*words("attributes", 256, nullable=True), *words("diagnostics", nullable=True)]
    return [Column("code", Integer), *text, *more]


def spent() -> list[Column[Any]]:
    """Return the columns of a ledger."""
    return [*columns(STATES, Double), Column("lost", Double)]


def upgrade() -> None:
    """Create all tables."""
    op.create_table(
        "frameworks",
        Column("id", NUMBER, primary_key=True),
        *words("uid", 64, unique=True),
        *words("namespace", 63),
        *words("name person", 253),
        *columns("created", Double),
        *columns("completed deleted", Double, nullable=True),
        *columns("seen", Double),
        *words("version", 64),
        *columns("generation", BigInteger),
        *words("state", 32),
        *columns("attempts restarts tasks gpus", Integer),
        *words("ready", 32),
        *end(),
        *spent(),
        *words("gap"),
        *columns("document", LargeBinary),
    )
    op.create_index("frameworks_created", "frameworks", ["created", "id"])
    for name in ("namespace", "name", "person", "state", "result"):
        op.create_index(f"frameworks_{name}", "frameworks", [name, "created", "id"])
    op.create_index("frameworks_deleted", "frameworks", ["deleted"])
    op.create_table("wholes", framework(), *columns("document", LargeBinary))
    op.create_table(
        "labels",
        framework(),
        *words("key", 317, primary_key=True),
        *words("value", 63),
        *columns("created", Double),
        **ONCE,
    )
    op.create_index("labels_value", "labels", ["key", "value", "created", "framework"])
    op.create_table(
        "specs",
        framework(),
        *keys("generation", BigInteger),
        *columns("seen", Double),
        *columns("document", LargeBinary),
    )
    op.create_table(
        "attempts",
        framework(),
        *keys("attempt"),
        *columns("generation", BigInteger),
        *words("namespace", 63),
        *columns("started ran ended", Double, nullable=True),
        *words("trigger", 128),
        *columns("tasks gpus restarts", Integer),
        *end(),
        *spent(),
        Column("roster", LargeBinary),
        *words("gap"),
        **ONCE,
    )
    op.create_table(
        "epochs",
        framework(),
        *keys("attempt epoch"),
        Column("began", Double),
        *words("reason", 32),
        *words("task", 128),
        Column("code", Integer),
        *words("message gap"),
        **ONCE,
    )
    op.create_table(
        "runs",
        framework(),
        *keys("attempt"),
        *words("role", 63, primary_key=True),
        *keys("index run"),
        *words("namespace", 63),
        *words("state", 32),
        *words("pod", 253),
        *words("pod_uid", 64),
        *words("node", 253),
        *words("ip", 64),
        *columns("started ran ended", Double, nullable=True),
        *end(),
        *words("containers gap"),
        **ONCE,
    )
    op.create_table(
        "spans",
        framework(),
        *keys("began", Double),
        *columns("attempt", Integer),
        *words("state", 16),
        Column("ended", Double),
        **ONCE,
    )
    op.create_table(
        "events",
        framework(),
        *words("uid", 64, primary_key=True),
        *columns("first last", Double),
        *columns("count", Integer),
        *words("type", 16),
        *words("reason", 128),
        *words("message"),
        *words("object", 317),
        **ONCE,
    )
    op.create_table(
        "logs",
        framework(),
        *words("pod_uid", 64, primary_key=True),
        *words("container", 63, primary_key=True),
        *keys("restart"),
        *columns("attempt", Integer),
        *words("role", 63),
        *columns("index run epoch", Integer),
        *words("key", 512),
        *columns("bytes", BigInteger),
        *columns("is_whole", Boolean),
        *columns("taken", Double),
        *words("gap"),
        **ONCE,
    )
    op.create_index("logs_task", "logs", ["framework", "attempt", "role", "index"])
    op.create_table(
        "days",
        *keys("day"),
        *words("namespace", 63, primary_key=True),
        *columns("attempts failed", BigInteger),
        *columns(f"{STATES} lost", Double),
        **ONCE,
    )
    op.create_table(
        "failures",
        *keys("day"),
        *words("namespace", 63, primary_key=True),
        *words("node", 253, primary_key=True),
        *words("phrase", 256, primary_key=True),
        *keys("code"),
        *columns("count", BigInteger),
        **ONCE,
    )
    op.create_table(
        "gaps",
        Column("id", NUMBER, primary_key=True),
        *columns("began ended", Double),
        *words("what"),
    )
    op.create_table("marks", *words("key", 64, primary_key=True), *words("value"), **ONCE)
