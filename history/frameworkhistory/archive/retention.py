"""Drops what is old: Frameworks that are deleted, with all that is kept of them, and what has ended of others."""

import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import chain
from math import ceil
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    Integer,
    Select,
    Table,
    bindparam,
    delete,
    exists,
    func,
    literal,
    or_,
    select,
    text,
    update,
)

from frameworkhistory.archive.changes import Row
from frameworkhistory.archive.database import writing
from frameworkhistory.archive.notation import Document, Words
from frameworkhistory.archive.tables import (
    ATTEMPTS,
    DAY,
    DAYS,
    EPOCHS,
    FAILURES,
    FRAMEWORKS,
    GAPS,
    LOGS,
    METADATA,
    RUNS,
    SPANS,
)

DROPPED: Final = "it was dropped: its namespace had most of the logs, which fill their part of the volume"
SHORTENED: Final = "what had ended before, in the namespace that fills most of the database, was dropped: it is full"
# What each attempt, restart and run adds, and when it was over.
_PARTS: Final = {RUNS: RUNS.c.ended, ATTEMPTS: ATTEMPTS.c.ended, SPANS: SPANS.c.ended, EPOCHS: EPOCHS.c.began}
_AT_ONCE: Final = 500  # Frameworks, logs, or rows of those that exist, in one transaction
_ROOM: Final = 0.95  # of the size that is left then
_MOST_RUNS: Final = 20_000  # of them, unless one Framework alone has more
_ROW: Final = 100  # bytes, about, of what has no length in it
_FILE: Final = 16 << 10  # bytes that an object takes beside its own: for so many a disk has one inode
_RATIO: Final = 5  # of a log to its object, where it is not known what that has
_PAGES: Final = "SELECT page_count - freelist_count FROM pragma_page_count, pragma_freelist_count"
# A file of PostgreSQL keeps the room of rows that are gone: what the rows fill is their number times what some take.
_FILLED: Final = """
SELECT pg_total_relation_size(oid) * least(1, greatest(reltuples, 0) * width / greatest(pg_table_size(oid), 1))
FROM pg_class, (SELECT coalesce(avg(pg_column_size(one.*)), 0) AS width FROM (SELECT * FROM {0} LIMIT 1000) one) taken
WHERE oid = '{0}'::regclass
"""


class _Over(NamedTuple):
    """A row that is over."""

    at: float
    """When it was; 0 if nobody has seen that."""
    size: int
    table: Table
    key: tuple[Any, ...]


@dataclass
class Retention:
    """Finds what is to go, and drops it: in between its logs are deleted, so that none is left that nobody knows.

    Attributes:
        days: For how long a Framework is kept after its deletion, None for ever.
        size: How many bytes the database may fill, None for any number: then of the namespace that has most those go
            that were deleted first, but of none that has less than its part of the size.
        log_size: How many bytes the objects of logs may fill, None for any number: then the oldest go of the namespace
            that has most, whether their Frameworks exist or not.
    """

    engine: Engine
    days: float | None
    size: int | None
    log_size: int | None = None
    now: Callable[[], float] = time.time

    def due(self) -> tuple[list[int], list[str]] | None:
        """Return what is to go next, None once nothing is: numbers of Frameworks, and the keys of their logs.

        A Framework that exists never goes.
        """
        with self.engine.begin() as connection:
            deleted = FRAMEWORKS.c.deleted
            columns = FRAMEWORKS.c.id, FRAMEWORKS.c.tasks, FRAMEWORKS.c.attempts
            query = select(*columns).where(deleted.is_not(None)).order_by(deleted)
            ids: list[int] = []
            if self.days is not None:
                old = query.where(deleted < self.now() - self.days * DAY).limit(_AT_ONCE)
                ids = _first(connection, old)
            if not ids and self.size is not None and (used := self._used(connection)) > self.size:
                filled, namespace = _filled(connection), FRAMEWORKS.c.namespace
                part = filled.total() / max(len(filled), 1) * self.size / used
                counted = select(namespace, func.count()).where(deleted.is_not(None)).group_by(namespace)
                gone = {one: count for one, count in connection.execute(counted) if filled[one] > part}
                if gone:
                    most = max(gone, key=filled.__getitem__)
                    some = min(ceil(gone[most] * (1 - self.size / used)), _AT_ONCE)
                    ids = _first(connection, query.where(namespace == most).limit(some))
            keys = select(LOGS.c.key).where(LOGS.c.framework.in_(ids), LOGS.c.key != "")
            return (ids, list(connection.scalars(keys))) if ids else None

    def drop(self, frameworks: list[int], known: Collection[str]) -> list[str]:
        """Drop Frameworks, in one transaction, and return the keys of logs that were not known to be theirs."""
        keys = select(LOGS.c.key).where(LOGS.c.framework.in_(frameworks), LOGS.c.key != "")
        with writing(self.engine) as connection:
            found = set(connection.scalars(keys))
            connection.execute(delete(FRAMEWORKS).where(FRAMEWORKS.c.id.in_(frameworks)))
            return [*found.difference(known)]

    def shorten(self) -> bool:
        """Drop what is over first of Frameworks that exist, where the database is too large without deleted ones.

        It is of the namespace that fills most, then of the next; a gap says so. The last of each stays, from which the
        next is told.

        Returns:
            Whether there may be more to drop.
        """
        if self.size is None:
            return False
        with self.engine.begin() as connection:
            if (used := self._used(connection)) <= self.size:
                return False
            filled = _filled(connection)
        part = filled.total() / max(len(filled), 1) * self.size / used
        # As much as there is too much of all, and some more, so that it is not looked for each time.
        much = filled.total() * (1 - _ROOM * self.size / used)
        found: list[_Over] = []
        with self.engine.connect() as connection:
            most = (_over(connection, one) for one, has in filled.most_common() if has > part)
            for over in chain.from_iterable(most):
                found.append(over)
                much -= over.size
                if much <= 0 or len(found) == _MOST_RUNS:
                    break
        for begin in range(0, len(found), _AT_ONCE):
            self._drop_over(found[begin : begin + _AT_ONCE])
        return len(found) == _MOST_RUNS

    def _drop_over(self, found: Sequence[_Over]) -> None:
        """Drop rows, with the empty ones of the logs of runs, and say until when, in one transaction."""

        def drop(table: Table, of: Table, *more: ColumnElement[bool]) -> None:
            names = [f"of_{column.name}" for column in of.primary_key.columns]
            keys = [dict(zip(names, one.key, strict=True)) for one in found if one.table is of]
            if keys:
                connection.execute(delete(table).where(*_keyed(table, of), *more), keys)

        with writing(self.engine) as connection:
            drop(LOGS, RUNS, LOGS.c.key == "")
            for table in _PARTS:
                drop(table, table)
            told = connection.scalar(select(func.max(GAPS.c.ended)).where(GAPS.c.what == SHORTENED)) or 0.0
            until = max(told, *(one.at for one in found))
            connection.execute(delete(GAPS).where(GAPS.c.what == SHORTENED))
            connection.execute(GAPS.insert(), {"began": until, "ended": until, "what": SHORTENED})

    def logs(self) -> list[Row]:
        """Return the keys of the rows of logs that are to go next, and their `key`; nothing once they fit."""
        if self.log_size is None:
            return []
        size = func.coalesce(LOGS.c.packed, LOGS.c.bytes / _RATIO) + _FILE
        stored = select(FRAMEWORKS.c.namespace, func.sum(size)).join_from(LOGS, FRAMEWORKS).where(LOGS.c.key != "")
        with self.engine.connect() as connection:
            found = connection.execute(stored.group_by(FRAMEWORKS.c.namespace))
            filled = Counter({namespace: int(filled) for namespace, filled in found})
            much = filled.total() - self.log_size
            if much <= 0:
                return []
            (most, has), (_, next_) = [*filled.most_common(2), ("", 0)][:2]
            # No further than to the next one, and not in too many steps.
            much = min(much, max(has - next_, has // 10))
            oldest = select(*LOGS.primary_key, LOGS.c.key, size.label("size")).join_from(LOGS, FRAMEWORKS)
            oldest = oldest.where(LOGS.c.key != "", FRAMEWORKS.c.namespace == most).order_by(LOGS.c.taken)
            rows: list[Row] = []
            for row in connection.execute(oldest.limit(_AT_ONCE)).mappings():
                if much > 0:
                    rows.append(dict(row))
                    much -= int(row["size"])
            return rows

    def forget(self, logs: Sequence[Row]) -> None:
        """Say in the rows of logs, in one transaction, that they are dropped."""
        names = LOGS.primary_key.columns.keys()
        same = _keyed(LOGS, LOGS)
        with writing(self.engine) as connection:
            keys = [{f"of_{name}": row[name] for name in names} for row in logs]
            connection.execute(update(LOGS).where(*same).values(key="", gap=DROPPED), keys)
            has_run = exists().where(*(one == LOGS.c[one.name] for one in RUNS.primary_key.columns))
            connection.execute(delete(LOGS).where(*same, ~has_run), keys)

    def tidy(self) -> None:
        """Drop gaps that are too old, and what is counted of days."""
        if self.days is not None:
            oldest = self.now() - self.days * DAY
            with writing(self.engine) as connection:
                for table in (DAYS, FAILURES):
                    connection.execute(delete(table).where(table.c.day < int(oldest // DAY)))
                connection.execute(delete(GAPS).where(GAPS.c.ended < oldest))

    def _used(self, connection: Connection) -> float:
        """Return how many bytes the rows and indices fill."""
        if self.engine.dialect.name == "sqlite":
            pages = connection.execute(text(_PAGES)).scalar_one()
            return float(pages * connection.execute(text("PRAGMA page_size")).scalar_one())
        connection.exec_driver_sql("ANALYZE")
        return sum(float(connection.execute(text(_FILLED.format(name))).scalar_one()) for name in METADATA.tables)


def _over(connection: Connection, namespace: str) -> list[_Over]:
    """Return what is over in Frameworks that exist, the oldest first, and no more than goes at a time.

    It is over if there is a later one of its kind, or a later attempt.
    """
    found: list[_Over] = []
    for table, ended in _PARTS.items():
        *same, last = table.primary_key.columns
        later, next_ = table.alias(), ATTEMPTS.alias()
        has_later = exists().where(*(later.c[one.name] == one for one in same), later.c[last.name] > last)
        has_next = exists().where(next_.c.framework == table.c.framework, next_.c.attempt > table.c.attempt)
        where = FRAMEWORKS.c.namespace == namespace, FRAMEWORKS.c.deleted.is_(None), or_(has_later, has_next)
        query = select(func.coalesce(ended, 0.0).label("at"), _size(table), *table.primary_key.columns)
        rows = connection.execute(query.join_from(table, FRAMEWORKS).where(*where).order_by("at").limit(_MOST_RUNS))
        found += (_Over(at, size, table, tuple(key)) for at, size, *key in rows)
    return sorted(found, key=lambda one: one.at)


def _keyed(table: Table, of: Table) -> list[ColumnElement[bool]]:
    """Return the conditions for rows of a table by keys of one, whose columns are given as `of_` and their names."""
    return [table.c[column.name] == bindparam(f"of_{column.name}") for column in of.primary_key.columns]


def _size(table: Table) -> ColumnElement[int]:
    """Return the bytes of a row, about."""
    long = [func.length(one, type_=Integer) for one in table.c if isinstance(one.type, (Document, Words))]
    return sum((func.coalesce(one, 0) for one in long), literal(_ROW))


def _filled(connection: Connection) -> Counter[str]:
    """Return how many bytes the Frameworks of each namespace fill, about."""
    found: Counter[str] = Counter()
    for table in METADATA.tables.values():
        if table is FRAMEWORKS or "framework" in table.c:
            rows = table if table is FRAMEWORKS else table.join(FRAMEWORKS)
            size = func.sum(_size(table))
            query = select(FRAMEWORKS.c.namespace, size).select_from(rows).group_by(FRAMEWORKS.c.namespace)
            found.update({namespace: int(filled) for namespace, filled in connection.execute(query)})
    return found


def _first(connection: Connection, query: Select[Any]) -> list[int]:
    """Return the first of the Frameworks, as many as one transaction can drop while others wait for it."""
    runs = 0
    ids: list[int] = []
    for id_, tasks, attempts in connection.execute(query):
        runs += tasks * attempts
        if ids and runs > _MOST_RUNS:
            break
        ids.append(id_)
    return ids
