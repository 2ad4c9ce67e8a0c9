"""Writes what was seen: many looks in one transaction."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from functools import cache
from importlib import import_module
from typing import Any, Final, TypeAlias

from sqlalchemy import (
    Connection,
    Delete,
    Engine,
    Integer,
    Table,
    Update,
    bindparam,
    delete,
    func,
    or_,
    select,
    tuple_,
    update,
)

from frameworkhistory.archive import tables as t
from frameworkhistory.archive.changes import Changes, Row
from frameworkhistory.archive.database import writing

_PARTS: Final = (t.SPECS, t.ATTEMPTS, t.EPOCHS, t.RUNS, t.SPANS, t.EVENTS, t.LOGS)
_COUNTS: Final = (t.DAYS, t.FAILURES)
_ENDS: Final = ("namespace", "ended", "result", "phrase", "code")
_COUNTED: Final = {t.ATTEMPTS: (*_ENDS, "tasks", *t.SPENT), t.RUNS: (*_ENDS, "node")}
_AT_ONCE: Final = 1_000  # rows that one statement asks for by their keys
# Of a Framework, what is the newest, and what is long in it: it may be told as often as somebody likes.
_BOUNDED: Final = (
    (t.SPECS, t.SPECS.c.generation, t.SPECS.c.document),
    (t.EVENTS, t.EVENTS.c.last, t.EVENTS.c.message),
    (t.ATTEMPTS, t.ATTEMPTS.c.attempt, t.ATTEMPTS.c.roster),
)
_NEWEST: Final = 1 << 20  # bytes, as they are stored: a row, or the roster of one, goes once newer ones come to more
_ROW: Final = 1 << 10  # that each counts besides, so that there are no more than a thousand
_Key: TypeAlias = tuple[Any, ...]
_Rows: TypeAlias = dict[Table, dict[_Key, Row]]
_Counts: TypeAlias = dict[tuple[Table, _Key], dict[str, Any]]


class Writer:
    """Applies changes. One program at a time has a writer; its methods may be called in threads."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        # The one that knows `on_conflict_do_update`.
        self._insert = import_module(f"sqlalchemy.dialects.{engine.dialect.name}").insert

    def apply(self, batch: Sequence[Changes]) -> set[str]:
        """Store all changes, or none, and return the UIDs of Frameworks that are not known.

        Changes whose Framework is stored in a newer version add rows, and change none that is there.

        Raises:
            sqlalchemy.exc.DBAPIError: The database is away or full: nothing is stored.
        """
        with writing(self._engine) as connection:
            columns = [t.FRAMEWORKS.c[name] for name in ("uid", "id", "namespace", "version", "created")]
            stored = select(*columns).where(columns[0].in_({changes.uid for changes in batch})).with_for_update()
            known = {row["uid"]: dict(row) for row in connection.execute(stored).mappings()}
            newest: _Rows = defaultdict(dict)
            others: _Rows = defaultdict(dict)
            labels: dict[str, dict[str, str]] = {}
            unknown: set[str] = set()
            for changes in batch:
                is_new = self._framework(connection, changes, known)
                own = known.get(changes.uid)
                if own is None or own["namespace"] != changes.namespace:
                    unknown.add(changes.uid)
                    continue
                rows = newest if is_new else others
                for table in _PARTS:
                    _merge(rows, table, own, getattr(changes, table.name))
                if changes.whole is not None:
                    _merge(rows, t.WHOLES, own, [{"document": changes.whole}])
                if changes.labels is not None and is_new:
                    labels[changes.uid] = changes.labels
            for uid, found in labels.items():
                _merge(newest, t.LABELS, known[uid], [{"key": key, "value": found[key]} for key in found])
            counts: _Counts = defaultdict(lambda: defaultdict(int))
            _count(connection, counts, -1, newest, others)
            self._drop_labels(connection, [known[uid]["id"] for uid in labels], newest)
            self._upsert(connection, newest)
            self._upsert(connection, others, is_new=False)
            self._drop_oldest(connection, newest, others)
            _count(connection, counts, 1, newest, others)
            counted: _Rows = defaultdict(dict)
            for (table, key), numbers in counts.items():
                if any(numbers.values()):
                    counted[table][key] = dict(zip(_keys(table), key, strict=True)) | numbers
            self._upsert(connection, counted)
        return unknown

    def gap(self, began: float, ended: float, what: str) -> None:
        """Record a time in which nothing was followed, and what is unknown for that."""
        with writing(self._engine) as connection:
            connection.execute(t.GAPS.insert(), {"began": began, "ended": ended, "what": what})

    def mark(self, key: str, value: str) -> None:
        """Remember a value, until it is given anew; `Reader.mark` returns it."""
        with writing(self._engine) as connection:
            self._upsert(connection, {t.MARKS: {(key,): {"key": key, "value": value}}})

    def change(self, uids: Collection[str], **columns: Any) -> None:
        """Change columns of Frameworks that are not known to be deleted."""
        own = t.FRAMEWORKS.c
        with writing(self._engine) as connection:
            known = update(t.FRAMEWORKS).where(own.uid == bindparam("of"), own.deleted.is_(None))
            connection.execute(known.values(columns), [{"of": uid} for uid in uids])

    def _framework(self, connection: Connection, changes: Changes, known: dict[str, Row]) -> bool:
        """Store the Framework's own row; return whether the changes are as new as what is stored."""
        row, stored = changes.framework, known.get(changes.uid)
        if row is None:
            return True
        if stored is None:
            add = self._insert(t.FRAMEWORKS).returning(t.FRAMEWORKS.c.id)
            id_ = connection.execute(add, {**row, "uid": changes.uid}).scalar_one()
            known[changes.uid] = {**row, "id": id_}
        elif "version" in row and _number(row["version"]) < _number(stored["version"]):
            return False
        else:
            stored["version"] = row.get("version", stored["version"])
            connection.execute(update(t.FRAMEWORKS).where(t.FRAMEWORKS.c.id == stored["id"]), row)
        return True

    @staticmethod
    def _drop_labels(connection: Connection, frameworks: Collection[int], rows: _Rows) -> None:
        """Drop the labels that Frameworks no longer have."""
        keys = t.LABELS.c.framework, t.LABELS.c.key
        stored = connection.execute(select(*keys).where(keys[0].in_(frameworks))).all() if frameworks else []
        gone = [{"of": one.framework, "at": one.key} for one in stored if tuple(one) not in rows[t.LABELS]]
        if gone:
            connection.execute(delete(t.LABELS).where(keys[0] == bindparam("of"), keys[1] == bindparam("at")), gone)

    @staticmethod
    def _drop_oldest(connection: Connection, *written: _Rows) -> None:
        """Drop specs, Events and rosters of the Frameworks that got more of them, beyond what is kept of each."""
        for table, age, long in _BOUNDED:
            rows = ((key, row) for some in written for key, row in some[table].items())
            if not (frameworks := {key[0] for key, row in rows if not long.nullable or long.name in row}):
                continue
            own, size = table.c.framework, func.length(long, type_=Integer) + _ROW
            newer = func.sum(size).over(partition_by=own, order_by=age.desc(), rows=(None, -1)).label("newer")
            found = select(*table.primary_key, newer).where(own.in_(frameworks), long.is_not(None)).subquery()
            old = select(*(found.c[key] for key in _keys(table))).where(found.c.newer > _NEWEST)
            drop: Delete | Update = update(table).values({long: None}) if long.nullable else delete(table)
            connection.execute(drop.where(tuple_(*table.primary_key).in_(old)))

    def _upsert(self, connection: Connection, rows: _Rows, *, is_new: bool = True) -> None:
        """Write rows, those of the same columns by one statement; what is stored already is not written again."""
        for table, by_key in rows.items():
            alike: dict[tuple[str, ...], list[Row]] = defaultdict(list)
            for row in by_key.values():
                alike[tuple(sorted(row))].append(row)
            keys = _keys(table)
            for columns, group in alike.items():
                add = self._insert(table)
                changed = {name: add.excluded[name] for name in columns if name not in keys}
                if table in _COUNTS:
                    changed = {name: table.c[name] + more for name, more in changed.items()}
                if is_new and changed:
                    differs = or_(*(table.c[name].is_distinct_from(value) for name, value in changed.items()))
                    add = add.on_conflict_do_update(index_elements=keys, set_=changed, where=differs)
                else:
                    add = add.on_conflict_do_nothing()
                connection.execute(add, group)


def _number(version: str) -> int:
    return int(version) if version.isdecimal() else 0


@cache
def _keys(table: Table) -> tuple[str, ...]:
    return tuple(table.primary_key.columns.keys())


def _merge(rows: _Rows, table: Table, framework: Row, more: Iterable[Row]) -> None:
    """Add rows of a Framework, or what they name to those of the same keys."""
    shared = {"framework": framework["id"]}
    shared |= {name: framework[name] for name in ("namespace", "created") if name in table.c}
    for row in more:
        whole = {**shared, **row}
        rows[table].setdefault(tuple(whole[key] for key in _keys(table)), {}).update(whole)


def _count(connection: Connection, counts: _Counts, times: int, *rows: _Rows) -> None:
    """Count what the stored attempts and failed runs, among those that rows are for, contribute to the days."""
    # A run that has not failed counts nowhere, so it is not looked for: most have not.
    attempts = sorted({key for some in rows for key in some[t.ATTEMPTS]})
    runs = sorted({key for some in rows for key, row in some[t.RUNS].items() if row.get("result") == "Failed"})
    for table, keys in ((t.ATTEMPTS, attempts), (t.RUNS, runs)):
        own = table.primary_key.columns.values()
        columns = [*own, *(table.c[name] for name in _COUNTED[table])]
        for begin in range(0, len(keys), _AT_ONCE):
            some = keys[begin : begin + _AT_ONCE]
            # PostgreSQL would plan for seconds how to find a thousand keys: it finds what is between them.
            ids, *others = zip(*some, strict=True)
            between = [column.between(min(values), max(values)) for column, values in zip(own[1:], others, strict=True)]
            query = select(*columns).where(own[0].in_(set(ids)), *between, table.c.ended.is_not(None))
            query = query if table is t.ATTEMPTS else query.where(table.c.result == "Failed")
            wanted = set(some)
            for row in connection.execute(query).mappings():
                if tuple(row[one.name] for one in own) in wanted:
                    _count_one(counts, times, table, row)


def _count_one(counts: _Counts, times: int, table: Table, row: Any) -> None:
    day, is_failed = int(row["ended"] // t.DAY), row["result"] == "Failed"
    if table is t.ATTEMPTS:
        numbers = counts[t.DAYS, (day, row["namespace"])]
        numbers["attempts"] += times
        numbers["failed"] += times * is_failed
        for name in t.SPENT:
            numbers[name] += times * row["tasks"] * (row[name] or 0)
    if is_failed and (table is t.ATTEMPTS or row["node"]):
        why = row.get("node", ""), row["namespace"], row["phrase"] or "", row["code"] or 0
        counts[t.FAILURES, (day, *why)]["count"] += times
