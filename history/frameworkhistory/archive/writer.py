"""Writes what was seen: many looks in one transaction."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from sqlalchemy import Connection, Engine, Table, delete, select, tuple_, update

from frameworkhistory.archive.changes import Changes, Row
from frameworkhistory.archive.database import insert, writing
from frameworkhistory.archive.tables import (
    ATTEMPTS,
    DAYS,
    EPOCHS,
    EVENTS,
    FAILURES,
    FRAMEWORKS,
    GAPS,
    LABELS,
    LOGS,
    MARKS,
    RUNS,
    SPANS,
    SPECS,
    SPENT,
    WHOLES,
)

DAY: Final = 86_400
"""Seconds."""
_PARTS: Final = {table.name: table for table in (SPECS, ATTEMPTS, EPOCHS, RUNS, SPANS, EVENTS, LOGS)}
_KEYS: Final = {table: tuple(table.primary_key.columns.keys()) for table in (*_PARTS.values(), WHOLES, LABELS)}
_AT_ONCE: Final = 1_000  # rows that one statement asks for by their keys
_Key: TypeAlias = tuple[Any, ...]
_Rows: TypeAlias = dict[Table, dict[_Key, Row]]


@dataclass
class _Known:
    """What is stored of a Framework: its number, its namespace, its version, and when it was created."""

    id: int
    namespace: str
    version: int
    created: float


class Writer:
    """Applies changes. One program at a time has a writer; its methods may be called in threads."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._insert = insert(engine)

    def apply(self, batch: Sequence[Changes]) -> set[str]:
        """Store all changes, or none, and return the UIDs of Frameworks that are not known.

        Changes whose Framework is stored in a newer version add rows, and change none that is there.

        Raises:
            sqlalchemy.exc.DBAPIError: The database is away or full: nothing is stored.
        """
        with writing(self._engine) as connection:
            uids = {changes.uid for changes in batch}
            columns = [FRAMEWORKS.c[name] for name in ("uid", "id", "namespace", "version", "created")]
            stored = connection.execute(select(*columns).where(FRAMEWORKS.c.uid.in_(uids)).with_for_update())
            known = {uid: _Known(id_, where, _number(version), created) for uid, id_, where, version, created in stored}
            newest: _Rows = defaultdict(dict)
            others: _Rows = defaultdict(dict)
            labels: dict[int, dict[_Key, Row]] = {}
            unknown: set[str] = set()
            for changes in batch:
                is_new = self._framework(connection, changes, known)
                framework = known.get(changes.uid)
                if framework is None or framework.namespace != changes.namespace:
                    unknown.add(changes.uid)
                    continue
                rows = newest if is_new else others
                parts: dict[str, list[Row]] = {name: getattr(changes, name) for name in _PARTS}
                for name, named in parts.items():
                    for row in named:
                        _merge(rows, _PARTS[name], {"framework": framework.id, **row})
                if changes.whole is not None:
                    _merge(rows, WHOLES, {"framework": framework.id, "document": changes.whole})
                if changes.labels is not None and is_new:
                    labels[framework.id] = {
                        (framework.id, key): {"value": value, "created": framework.created}
                        for key, value in changes.labels.items()
                    }
            self._label(connection, labels, newest)
            counted = [_count(connection, newest, others)]
            self._upsert(connection, newest, is_new=True)
            self._upsert(connection, others, is_new=False)
            counted.append(_count(connection, newest, others))
            self._add(connection, *counted)
        return unknown

    def gap(self, began: float, ended: float, what: str) -> None:
        """Record a time in which nothing was followed, and what is unknown for that."""
        with writing(self._engine) as connection:
            connection.execute(GAPS.insert(), {"began": began, "ended": ended, "what": what})

    def mark(self, key: str, value: str) -> None:
        """Remember a value, until it is given anew; `Reader.mark` returns it."""
        add = self._insert(MARKS)
        with writing(self._engine) as connection:
            connection.execute(
                add.on_conflict_do_update(index_elements=["key"], set_={"value": add.excluded.value}),
                {"key": key, "value": value},
            )

    def _framework(self, connection: Connection, changes: Changes, known: dict[str, _Known]) -> bool:
        """Store the Framework's own row; return whether the changes are as new as what is stored."""
        row, stored = changes.framework, known.get(changes.uid)
        if row is None:
            return True
        version = _number(row.get("version", ""))
        if stored is None:
            added = connection.execute(self._insert(FRAMEWORKS).returning(FRAMEWORKS.c.id), {**row, "uid": changes.uid})
            known[changes.uid] = _Known(added.scalar_one(), changes.namespace, version, row["created"])
        elif "version" in row and version < stored.version:
            return False
        else:
            stored.version = max(version, stored.version)
            connection.execute(update(FRAMEWORKS).where(FRAMEWORKS.c.id == stored.id), row)
        return True

    @staticmethod
    def _label(connection: Connection, labels: dict[int, dict[_Key, Row]], rows: _Rows) -> None:
        """Drop the labels that Frameworks no longer have, and add those that are new or others to the rows."""
        stored = select(LABELS).where(LABELS.c.framework.in_(labels))
        for framework, key, value, _ in connection.execute(stored).all() if labels else ():
            wanted = labels[framework].get((framework, key))
            if wanted is None:
                connection.execute(delete(LABELS).where(LABELS.c.framework == framework, LABELS.c.key == key))
            elif wanted["value"] == value:
                del labels[framework][framework, key]
        for wanted_rows in labels.values():
            for (framework, key), row in wanted_rows.items():
                _merge(rows, LABELS, {"framework": framework, "key": key, **row})

    def _upsert(self, connection: Connection, rows: _Rows, *, is_new: bool) -> None:
        """Write rows, those of the same columns by one statement."""
        for table, by_key in rows.items():
            alike: dict[tuple[str, ...], list[Row]] = defaultdict(list)
            for row in by_key.values():
                alike[tuple(sorted(row))].append(row)
            for columns, group in alike.items():
                add, keys = self._insert(table), _KEYS[table]
                changed = {name: add.excluded[name] for name in columns if name not in keys}
                if is_new and changed:
                    add = add.on_conflict_do_update(index_elements=keys, set_=changed)
                else:
                    add = add.on_conflict_do_nothing()
                connection.execute(add, group)

    def _add(self, connection: Connection, before: _Rows, after: _Rows) -> None:
        """Add to the counts of days what rows contribute after a change, less what they did before."""
        for table in (DAYS, FAILURES):
            keys = tuple(table.primary_key.columns.keys())
            totals = [
                {
                    **dict(zip(keys, key, strict=True)),
                    **{name: now.get(name, 0) - was.get(name, 0) for name in now | was},
                }
                for key in after[table].keys() | before[table].keys()
                for now, was in [(after[table].get(key, {}), before[table].get(key, {}))]
                if now != was
            ]
            if totals:
                add = self._insert(table)
                more = {one.name: one + add.excluded[one.name] for one in table.c if one.name not in keys}
                connection.execute(add.on_conflict_do_update(index_elements=keys, set_=more), totals)


def _number(version: str) -> int:
    return int(version) if version.isdecimal() else 0


def _merge(rows: _Rows, table: Table, row: Row) -> None:
    """Add a row, or what it names to that of the same key."""
    rows[table].setdefault(tuple(row[key] for key in _KEYS[table]), {}).update(row)


def _count(connection: Connection, *rows: _Rows) -> _Rows:
    """Return what the stored attempts and failed runs, among those that rows are for, contribute to the days."""
    counts: _Rows = {DAYS: {}, FAILURES: {}}

    def add(table: Table, key: _Key, more: Row) -> None:
        total = counts[table].setdefault(key, dict.fromkeys(more, 0))
        for name, value in more.items():
            total[name] += value

    # A run that has not failed counts nowhere, so it is not looked for: most have not.
    attempts = sorted({key for some in rows for key in some[ATTEMPTS]})
    runs = sorted({key for some in rows for key, row in some[RUNS].items() if row.get("result") == "Failed"})
    for table, keys in ((ATTEMPTS, attempts), (RUNS, runs)):
        spent = [table.c[name] for name in ("tasks", *SPENT)] if table is ATTEMPTS else [table.c.node]
        columns = [table.c[name] for name in ("namespace", "ended", "result", "phrase", "code")]
        for begin in range(0, len(keys), _AT_ONCE):
            among = tuple_(*table.primary_key.columns).in_(keys[begin : begin + _AT_ONCE])
            for row in connection.execute(select(*columns, *spent).where(among, table.c.ended.is_not(None))).mappings():
                key, is_failed = (int(row["ended"] // DAY), row["namespace"]), row["result"] == "Failed"
                if table is ATTEMPTS:
                    seconds = {name: (row[name] or 0.0) * row["tasks"] for name in SPENT}
                    add(DAYS, key, {"attempts": 1, "failed": int(is_failed), **seconds})
                if is_failed and (table is ATTEMPTS or row["node"]):
                    why = row.get("node", ""), row["phrase"] or "", row["code"] or 0
                    add(FAILURES, (*key, *why), {"count": 1})
    return counts
