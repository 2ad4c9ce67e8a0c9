"""Reads what pages and commands show; every list has a bound, and goes on after a key."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Engine, FromClause, Select, Table, and_, exists, func, select, tuple_

from frameworkhistory.archive.changes import Row
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
    WHOLES,
)

DAY: Final = 86_400
"""Seconds."""
_FEW: Final = 20_000  # are sorted; among more, the newest are found soon in the order of their creation
_SOME: Final = 50  # namespaces are asked one by one; among more, the newest are found soon, too
_MOST: Final = 5_000  # rows of one Framework, the newest


def _columns(table: Table, *without: str) -> list[ColumnElement[Any]]:
    return [column for column in table.c if column.name not in ("framework", *without)]


_F: Final = FRAMEWORKS.c
_LISTED: Final = _columns(FRAMEWORKS, "document")
_COUNTED: Final = [func.sum(DAYS.c[name]).label(name) for name in DAYS.c.keys()[2:]]
_COUNT: Final = func.sum(FAILURES.c.count).label("count")


@dataclass(frozen=True)
class Search:
    """Which Frameworks are looked for; what is empty or None does not matter.

    Attributes:
        namespaces: Those that may be seen, None for all.
        name: How the name begins.
        result: Succeeded or Failed.
        label: `key=value`, or `key` for any value.
        since: When they were created, in seconds since 1970, at the earliest.
        until: Before when they were created.
        before: `created` and `id` of the last row of the page before.
    """

    namespaces: frozenset[str] | None
    namespace: str = ""
    name: str = ""
    state: str = ""
    result: str = ""
    person: str = ""
    label: str = ""
    since: float | None = None
    until: float | None = None
    before: tuple[float, int] | None = None
    limit: int = 50


@dataclass(frozen=True)
class Statistics:
    """What the attempts have come to that ended on some days: their number, and seconds times Tasks by the ledger.

    Attributes:
        total: `attempts`, `failed`, and the columns of a ledger.
        days: The same for each `day` (counted since 1970 in UTC) on which one ended.
        namespaces: The same for each `namespace`.
        failures: `count` of failed attempts by `phrase` and `code`, the most first.
        nodes: `count` of failed attempts of Tasks by `node`, the most first.
    """

    total: Row
    days: list[Row]
    namespaces: list[Row]
    failures: list[Row]
    nodes: list[Row]


class Reader:
    """Answers questions, each by a few short statements; it raises `sqlalchemy.exc.DBAPIError` as the database does."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def frameworks(self, search: Search) -> list[Row]:
        """Return Frameworks, the newest first."""
        with self._engine.connect() as connection:
            ids = _find(connection, search)
            found = connection.execute(select(*_LISTED).where(_F.id.in_(ids))).mappings()
            rows = {row["id"]: dict(row) for row in found}
        return [rows[id_] for id_ in ids if id_ in rows]

    def framework(self, namespace: str, name: str, uid: str = "") -> Row | None:
        """Return a Framework: the newest of that name, or that of a UID."""
        query = select(*_LISTED).where(_F.namespace == namespace, _F.name == name, *([_F.uid == uid] if uid else []))
        return next(iter(self._rows(query.order_by(_F.created.desc(), _F.id.desc()).limit(1))), None)

    def existing(self) -> list[Row]:
        """Return `uid`, `namespace`, `name` and `version` of all Frameworks that are not known to be deleted."""
        return self._rows(select(_F.uid, _F.namespace, _F.name, _F.version).where(_F.deleted.is_(None)))

    def namespaces(self) -> list[str]:
        """Return the namespaces that had Frameworks, each looked up after the one before."""
        found = select(func.min(_F.namespace).label("name")).cte(recursive=True)
        after = select(func.min(_F.namespace)).where(_F.namespace > found.c.name).scalar_subquery()
        found = found.union_all(select(after).where(found.c.name.is_not(None)))
        return [row["name"] for row in self._rows(select(found.c.name).where(found.c.name.is_not(None)))]

    def document(self, id_: int) -> bytes | None:
        """Return the newest state of a Framework as JSON, without its Tasks."""
        return self._document(select(_F.document).where(_F.id == id_))

    def whole(self, id_: int) -> bytes | None:
        """Return the newest state that was stored with all Tasks, as JSON."""
        return self._document(select(WHOLES.c.document).where(WHOLES.c.framework == id_))

    def roster(self, id_: int, attempt: int) -> bytes | None:
        """Return the last roster of an attempt."""
        return self._document(select(ATTEMPTS.c.roster).where(*_of(ATTEMPTS, id_, attempt=attempt)))

    def labels(self, id_: int) -> dict[str, str]:
        """Return the labels of a Framework."""
        return {row["key"]: row["value"] for row in self._rows(select(LABELS).where(*_of(LABELS, id_)))}

    def attempts(self, id_: int) -> list[Row]:
        """Return the attempts of a Framework, from the first."""
        return self._newest(ATTEMPTS, _of(ATTEMPTS, id_), "roster")

    def epochs(self, id_: int, attempt: int | None = None) -> list[Row]:
        """Return the epochs of a Framework or an attempt, from the first."""
        return self._newest(EPOCHS, _of(EPOCHS, id_, attempt=attempt))

    def spans(self, id_: int) -> list[Row]:
        """Return what the time of a Framework was spent on, from the first."""
        return self._newest(SPANS, _of(SPANS, id_))

    def events(self, id_: int, limit: int = 500) -> list[Row]:
        """Return the last Events, from the oldest of them."""
        query = select(*_columns(EVENTS)).where(*_of(EVENTS, id_))
        return self._rows(query.order_by(EVENTS.c.last.desc(), EVENTS.c.uid).limit(limit))[::-1]

    def specs(self, id_: int) -> list[tuple[int, float]]:
        """Return the generations of the spec, and when each was seen first, from the first."""
        return [(row["generation"], row["seen"]) for row in self._newest(SPECS, _of(SPECS, id_), "document")]

    def spec(self, id_: int, generation: int) -> bytes | None:
        """Return the spec of a generation as JSON."""
        return self._document(select(SPECS.c.document).where(*_of(SPECS, id_, generation=generation)))

    def runs(
        self,
        id_: int,
        attempt: int | None = None,
        role: str = "",
        after: tuple[int, str, int, int] | None = None,
        *,
        failed: bool = False,
        limit: int = 200,
    ) -> list[Row]:
        """Return attempts of Tasks in the order of `attempt`, `role`, `index` and `run`, those after such a key."""
        key = RUNS.c.attempt, RUNS.c.role, RUNS.c.index, RUNS.c.run
        where = _of(RUNS, id_, attempt=attempt, role=role or None, result="Failed" if failed else None)
        query = select(*_columns(RUNS)).where(*where, *([tuple_(*key) > after] if after else []))
        return self._rows(query.order_by(*key).limit(limit))

    def count_runs(self, id_: int, attempt: int | None = None, role: str = "", *, failed: bool = False) -> int:
        """Return how many attempts of Tasks there are."""
        where = _of(RUNS, id_, attempt=attempt, role=role or None, result="Failed" if failed else None)
        return int(self._rows(select(func.count().label("count")).select_from(RUNS).where(*where))[0]["count"])

    def run_history(self, id_: int, attempt: int, role: str, index: int) -> list[Row]:
        """Return all attempts of a Task, from the first."""
        return self._newest(RUNS, _of(RUNS, id_, attempt=attempt, role=role, index=index))

    def logs(
        self,
        id_: int,
        attempt: int | None = None,
        role: str = "",
        index: int | None = None,
        run: int | None = None,
        limit: int = _MOST,
    ) -> list[Row]:
        """Return where logs are, in the order of the Tasks and of the times at which they were taken."""
        where = _of(LOGS, id_, attempt=attempt, role=role or None, index=index, run=run)
        order = LOGS.c.attempt, LOGS.c.role, LOGS.c.index, LOGS.c.run, LOGS.c.taken, LOGS.c.container, LOGS.c.restart
        return self._rows(select(*_columns(LOGS)).where(*where).order_by(*order).limit(limit))

    def pod_logs(self, uid: str, pod_uid: str) -> list[Row]:
        """Return the logs of a Pod, by the UIDs of its Framework and its own."""
        known = select(_F.id).where(_F.uid == uid).scalar_subquery()
        return self._rows(select(*_columns(LOGS)).where(LOGS.c.framework == known, LOGS.c.pod_uid == pod_uid))

    def statistics(self, namespaces: frozenset[str] | None, since: float, until: float) -> Statistics:
        """Return what was counted from the day of one time to that of another, in namespaces (None: all)."""

        def of(table: Table) -> list[ColumnElement[bool]]:
            days = table.c.day.between(int(since // DAY), int(until // DAY))
            return [days] if namespaces is None else [days, table.c.namespace.in_(namespaces)]

        def counted(*by: ColumnElement[Any]) -> list[Row]:
            return self._rows(select(*by, *_COUNTED).where(*of(DAYS)).group_by(*by).order_by(*by))

        def failed(is_task: ColumnElement[bool], *by: ColumnElement[Any]) -> list[Row]:
            query = select(*by, _COUNT).where(*of(FAILURES), is_task).group_by(*by)
            return self._rows(query.order_by(_COUNT.desc(), *by).limit(100))

        days = counted(DAYS.c.day)
        return Statistics(
            total={column.name: sum(day[column.name] for day in days) for column in _COUNTED},
            days=days,
            namespaces=counted(DAYS.c.namespace),
            failures=failed(FAILURES.c.node == "", FAILURES.c.phrase, FAILURES.c.code),
            nodes=failed(FAILURES.c.node != "", FAILURES.c.node),
        )

    def gaps(self, since: float) -> list[Row]:
        """Return the times in which nothing was followed, those that ended after one."""
        return self._rows(select(GAPS).where(GAPS.c.ended >= since).order_by(GAPS.c.began, GAPS.c.id).limit(_MOST))

    def mark(self, key: str) -> str | None:
        """Return what the archive remembers, None if nothing."""
        return next((row["value"] for row in self._rows(select(MARKS.c.value).where(MARKS.c.key == key))), None)

    def _rows(self, query: Select[Any]) -> list[Row]:
        with self._engine.connect() as connection:
            return [dict(row) for row in connection.execute(query).mappings()]

    def _document(self, query: Select[Any]) -> bytes | None:
        with self._engine.connect() as connection:
            document: bytes | None = connection.scalars(query).one_or_none()
            return document

    def _newest(self, table: Table, where: Iterable[ColumnElement[bool]], *without: str) -> list[Row]:
        """Return rows of a Framework in the order of their keys, the last ones if there are too many."""
        order = [column.desc() for column in table.primary_key.columns]
        return self._rows(select(*_columns(table, *without)).where(*where).order_by(*order).limit(_MOST))[::-1]


def _of(table: Table, id_: int, **values: Any) -> list[ColumnElement[bool]]:
    """Return the condition that rows are of a Framework, and have values, None for any."""
    wanted = {"framework": id_, **values}
    return [table.c[name] == value for name, value in wanted.items() if value is not None]


def _find(connection: Connection, search: Search) -> list[int]:
    """Return the numbers of the Frameworks of a page, the newest first.

    Each index of FRAMEWORKS is in the order of a page, as that of a label's value is: a search reads little more than
    what it shows.
    """
    visible = search.namespaces
    if search.namespace:
        visible = frozenset({search.namespace}) & (frozenset({search.namespace}) if visible is None else visible)
    way, where = _way(connection, search)
    id_, created = (_F.id, _F.created) if way is None else (way.c.id, way.c.created)
    where += [_F[name] == value for name in ("state", "result", "person") if (value := getattr(search, name))]
    query = select(id_, created).order_by(created.desc(), id_.desc()).limit(search.limit)
    if way is not None and (where or visible is not None):
        query = query.join_from(way, FRAMEWORKS, id_ == _F.id)
    if search.since is not None:
        where.append(created >= search.since)
    if search.until is not None:
        where.append(created < search.until)
    if search.before is not None:
        where.append(tuple_(created, id_) < search.before)
    query = query.where(*where)
    if visible is None:
        queries = [query]
    elif way is None and len(visible) <= _SOME:
        queries = [query.where(_F.namespace == namespace) for namespace in visible]
    else:
        queries = [query.where(_F.namespace.in_(visible))]
    found = sorted(((row.created, row.id) for one in queries for row in connection.execute(one)), reverse=True)
    return [id_ for _, id_ in found[: search.limit]]


def _way(connection: Connection, search: Search) -> tuple[FromClause | None, list[ColumnElement[bool]]]:
    """Return `id` and `created` of the Frameworks to look at for a label or a name, None for all, and conditions.

    The rows of a label of any value, or of the beginning of a name, are not in the order of a page: few can be sorted,
    among many the newest are found soon.
    """
    way: FromClause | None = None
    where: list[ColumnElement[bool]] = []
    name, label = search.name, LABELS.c.key == search.label
    if "=" in search.label:
        key, _, value = search.label.partition("=")
        way = (
            select(LABELS.c.framework.label("id"), LABELS.c.created)
            .where(LABELS.c.key == key, LABELS.c.value == value)
            .subquery()
        )
    choices: list[tuple[Select[Any], ColumnElement[bool]]] = []
    if search.label and way is None:
        choices.append(
            (
                select(LABELS.c.framework.label("id"), LABELS.c.created).where(label),
                exists().where(LABELS.c.framework == _F.id, label),
            )
        )
    if name:
        begins = and_(_F.name >= name, _F.name < name + chr(0x10FFFF))
        choices.append((select(_F.id, _F.created).where(begins), begins))
    for rows, condition in choices:
        few = rows.limit(_FEW).subquery()
        if way is None and connection.scalars(select(func.count()).select_from(few)).one() < _FEW:
            way = few
        else:
            where.append(condition)
    return way, where
