"""The first tables."""

from typing import Any, Final

from alembic import op
from sqlalchemy import BigInteger, Boolean, Column, Double, ForeignKey, Integer, LargeBinary, String, Text

revision = "0001"
down_revision = None

_END: Final = "code?:int phrase?:256 result?:16 attributes?:256 diagnostics?:text"
_STATES: Final = "queued waiting scheduling starting gate running hung restarting ending backoff"
_SPENT: Final = " ".join(f"{state}:double" for state in _STATES.split())
_TABLES: Final = {
    "frameworks": f"""uid^:64 namespace:63 name:253 person:253 created:double completed?:double deleted?:double
        seen:double version:64 generation:big state:32 attempts:int restarts:int tasks:int gpus:int ready:32
        {_END} {_SPENT} lost?:double gap:text document:bytes""",
    "wholes": "framework!:number document:bytes",
    "labels": "framework!:number key!:317 value:63 created:double",
    "specs": "framework!:number generation!:big seen:double document:bytes",
    "attempts": f"""framework!:number attempt!:int generation:big namespace:63 started?:double ran?:double
        ended?:double trigger:128 tasks:int gpus:int restarts:int {_END} {_SPENT} lost?:double roster?:bytes
        gap:text""",
    "epochs": """framework!:number attempt!:int epoch!:int began?:double reason:32 task:128 code?:int message:text
        gap:text""",
    "runs": f"""framework!:number attempt!:int role!:63 index!:int run!:int namespace:63 state:32 pod:253 pod_uid:64
        node:253 ip:64 started?:double ran?:double ended?:double {_END} containers:text gap:text""",
    "spans": "framework!:number began!:double attempt:int state:16 ended?:double",
    "events": """framework!:number uid!:64 first:double last:double count:int type:16 reason:128 message:text
        object:317""",
    "logs": """framework!:number pod_uid!:64 container!:63 restart!:int attempt:int role:63 index:int run:int epoch:int
        key:512 bytes:big is_whole:boolean taken:double gap:text""",
    "days": f"day!:int namespace!:63 attempts:big failed:big {_SPENT} lost:double",
    "failures": "day!:int node!:253 namespace!:63 phrase!:256 code!:int count:big",
    "gaps": "began:double ended:double what:text",
    "marks": "key!:64 value:text",
}
"""Columns by type: `!` is part of the primary key, `^` unique, `?` may be NULL; a number is a text's length."""
_INDICES: Final = {
    "frameworks_created": "created id name",
    "frameworks_namespace": "namespace created id state result",
    "frameworks_name": "name namespace created id",
    "frameworks_person": "person created id namespace state result",
    "frameworks_state": "state created id result",
    "frameworks_result": "result created id",
    "frameworks_deleted": "deleted",
    "labels_value": "key value created framework",
    "logs_task": "framework attempt role index",
}
_NUMBER: Final = BigInteger().with_variant(Integer, "sqlite")
_TYPES: Final[dict[str, Any]] = {
    "int": Integer,
    "big": BigInteger,
    "number": _NUMBER,
    "double": Double,
    "boolean": Boolean,
    "bytes": LargeBinary,
    "text": Text().with_variant(Text(collation="C"), "postgresql"),
}


def _column(said: str) -> Column[Any]:
    name, kind = said.split(":")
    type_ = _TYPES.get(kind) or String(int(kind)).with_variant(String(int(kind), collation="C"), "postgresql")
    others = [ForeignKey("frameworks.id", ondelete="CASCADE")] if kind == "number" else []
    rules: dict[str, Any] = {"primary_key": "!" in name, "nullable": "?" in name, "unique": "^" in name or None}
    return Column(name.rstrip("!?^"), type_, *others, autoincrement=False, **rules)


def upgrade() -> None:
    """Create all tables."""
    for table, columns in _TABLES.items():
        has_number = table in {"frameworks", "gaps"}
        numbers = [Column("id", _NUMBER, primary_key=True)] if has_number else []
        has_rowid = has_number or table in {"wholes", "specs"}
        rules: dict[str, Any] = {} if has_rowid else {"sqlite_with_rowid": False}
        op.create_table(table, *numbers, *map(_column, columns.split()), **rules)
    for index, names in _INDICES.items():
        op.create_index(index, index.split("_")[0], names.split())
