"""Reads what pages and commands show; every list has a bound, and goes on after a key."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import partialmethod
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Engine, FromClause, Select, Table, exists, func, select, tuple_

from frameworkhistory.archive import tables as t
from frameworkhistory.archive.changes import Known, Row
from frameworkhistory.archive.notation import Document

_FEW: Final = 20_000  # are sorted; among more, the newest are found soon in the order of their creation
_SOME: Final = 50  # namespaces are asked one by one; among more, the newest are found soon, too
_MOST: Final = 5_000  # rows of one Framework, the newest


def _columns(table: Table) -> list[ColumnElement[Any]]:
    """Return the columns of a list: documents are read one by one."""
    return [column for column in table.c if column.name != "framework" and not isinstance(column.type, Document)]


_F: Final = t.FRAMEWORKS.c
_LISTED: Final = _columns(t.FRAMEWORKS)


@dataclass(frozen=True)
class Search:
    """Which Frameworks are looked for; what is empty or None does not matter.

    Attributes:
        namespaces: Those that are wanted and may be seen, None for all.
        name: How the name begins.
        result: Succeeded or Failed.
        label: `key=value`, or `key` for any value.
        since: When they were created, in seconds since 1970, at the earliest.
        until: Before when they were created.
        before: `created` and `id` of the last row of the page before.
    """

    namespaces: frozenset[str] | None
    name: str = ""
    state: str = ""
    result: str = ""
    person: str = ""
    label: str = ""
    since: float | None = None
    until: float | None = None
    before: tuple[float, int] | None = None
    limit: int = 50


class Reader:
    """Answers questions, each by a few short statements; it raises `sqlalchemy.exc.DBAPIError` as the database does.

    Rows of a Framework are in the order of their keys, unless another order is told.
    """

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

    def existing(self, namespaces: Collection[str] = ()) -> dict[str, str]:
        """Return the versions, by UID, of Frameworks that are not known to be deleted; everywhere if none is named."""
        query = select(_F.uid, _F.version).where(_F.deleted.is_(None))
        rows = self._rows(query.where(_F.namespace.in_(namespaces)) if namespaces else query)
        return {row["uid"]: row["version"] for row in rows}

    def namespaces(self) -> list[str]:
        """Return the namespaces that had Frameworks, each looked up after the one before."""
        found = select(func.min(_F.namespace).label("name")).cte(recursive=True)
        after = select(func.min(_F.namespace)).where(_F.namespace > found.c.name).scalar_subquery()
        found = found.union_all(select(after).where(found.c.name.is_not(None)))
        return [row["name"] for row in self._rows(select(found.c.name).where(found.c.name.is_not(None)))]

    def _value(self, table: Table, name: str, *key: Any) -> Any:
        """Return what the row of a key has in a column, None without such a row."""
        with self._engine.connect() as connection:
            return connection.scalar(select(table.c[name]).where(*_of(table, *key)))

    document: partialmethod[bytes | None] = partialmethod(_value, t.FRAMEWORKS, "document")
    """The newest state of a Framework as JSON, without its Tasks."""
    whole: partialmethod[bytes | None] = partialmethod(_value, t.WHOLES, "document")
    """The newest state that was stored with all Tasks, as JSON."""
    roster: partialmethod[bytes | None] = partialmethod(_value, t.ATTEMPTS, "roster")
    """The last roster of an attempt."""
    spec: partialmethod[bytes | None] = partialmethod(_value, t.SPECS, "document")
    """The spec of a generation as JSON."""
    mark: partialmethod[str | None] = partialmethod(_value, t.MARKS, "value")
    """What the archive remembers by a key."""

    def _last(self, table: Table, *key: Any) -> list[Row]:
        """Return the rows that have the beginning of a key, the last of too many."""
        return self._rows(_newest(table, *key).limit(_MOST))[::-1]

    attempts: partialmethod[list[Row]] = partialmethod(_last, t.ATTEMPTS)
    """The attempts of a Framework."""
    epochs: partialmethod[list[Row]] = partialmethod(_last, t.EPOCHS)
    """The epochs of a Framework, or of an attempt."""
    run_history: partialmethod[list[Row]] = partialmethod(_last, t.RUNS)
    """The attempts of a Task by its Framework, the attempt of that (None: any), role and index."""
    spans: partialmethod[list[Row]] = partialmethod(_last, t.SPANS)
    """What the time of a Framework was spent on."""

    def specs(self, id_: int) -> list[tuple[int, float]]:
        """Return the generations of the spec, and when each was seen first."""
        return [(row["generation"], row["seen"]) for row in self._last(t.SPECS, id_)]

    def labels(self, id_: int) -> dict[str, str]:
        """Return the labels of a Framework."""
        return {row["key"]: row["value"] for row in self._last(t.LABELS, id_)}

    def events(self, id_: int, limit: int = 500) -> list[Row]:
        """Return the last Events, from the oldest of them."""
        order = t.EVENTS.c.last.desc(), t.EVENTS.c.uid
        return self._rows(_query(t.EVENTS, id_).order_by(*order).limit(limit))[::-1]

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
        """Return attempts of Tasks, those after a key: the attempt of the Framework, role, index and run."""
        key = [t.RUNS.c[name] for name in ("attempt", "role", "index", "run")]
        query = _query(t.RUNS, id_, attempt, role or None, result="Failed" if failed else None)
        query = query.where(tuple_(*key) > after) if after else query
        return self._rows(query.order_by(*key).limit(limit))

    def count_runs(self, id_: int, attempt: int | None = None) -> int:
        """Return how many attempts of Tasks there are."""
        with self._engine.connect() as connection:
            return connection.scalar(select(func.count()).where(*_of(t.RUNS, id_, attempt))) or 0

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
        query = _query(t.LOGS, id_, attempt=attempt, role=role or None, index=index, run=run)
        order = [t.LOGS.c[name] for name in ("attempt", "role", "index", "run", "taken", "container", "restart")]
        return self._rows(query.order_by(*order).limit(limit))

    def pod_logs(self, uid: str, pod_uid: str) -> list[Row]:
        """Return the logs of a Pod, by the UIDs of its Framework and its own."""
        return self._rows(_query(t.LOGS, select(_F.id).where(_F.uid == uid).scalar_subquery(), pod_uid))

    def statistics(self, namespaces: frozenset[str] | None, since: float, until: float) -> dict[str, list[Row]]:
        """Return what was counted from the day of one time to that of another, in namespaces (None: all).

        `days` (since 1970 in UTC) and `namespaces` have for each, in their order, how many `attempts` have ended and
        `failed`, and the columns of a ledger, as seconds times Tasks. `failures` and `nodes` have the `count` of failed
        attempts by `phrase` and `code`, and of those of Tasks by `node`, the most first.
        """

        def ask(table: Table, *by: ColumnElement[Any]) -> Select[Any]:
            numbers = [column for column in table.c if not column.primary_key]
            query = select(*by, *(func.sum(column).label(column.name) for column in numbers)).group_by(*by)
            query = query.where(table.c.day.in_(range(int(since // t.DAY), int(until // t.DAY) + 1)))
            return query if namespaces is None else query.where(table.c.namespace.in_(namespaces))

        def failed(*by: ColumnElement[Any]) -> Select[Any]:
            return ask(t.FAILURES, *by).order_by(func.sum(t.FAILURES.c.count).desc(), *by).limit(100)

        node, phrase, code = t.FAILURES.c.node, t.FAILURES.c.phrase, t.FAILURES.c.code
        queries = {
            "days": ask(t.DAYS, t.DAYS.c.day).order_by(t.DAYS.c.day),
            "namespaces": ask(t.DAYS, t.DAYS.c.namespace).order_by(t.DAYS.c.namespace),
            "failures": failed(phrase, code).where(node == ""),
            "nodes": failed(node).where(node != ""),
        }
        return {name: self._rows(query) for name, query in queries.items()}

    def gaps(self, since: float) -> list[Row]:
        """Return the times in which nothing was followed, those that ended after one."""
        return self._rows(select(t.GAPS).where(t.GAPS.c.ended >= since).order_by(t.GAPS.c.began).limit(_MOST))

    def known(self, uid: str, at_work: float) -> Known:
        """Return what is known of a Framework, which was followed until `at_work`; an empty value if nothing is."""
        with self._engine.connect() as connection:
            found = connection.execute(select(_F.id, _F.seen).where(_F.uid == uid)).first()
            if found is None:
                return Known()

            def newest(query: Select[Any]) -> Row:
                return dict(connection.execute(query.limit(1)).mappings().first() or {})

            tried, runs = newest(_newest(t.ATTEMPTS, found.id)), t.RUNS.c
            attempt: int = tried.get("attempt", -1)
            span = newest(_newest(t.SPANS, found.id).where(t.SPANS.c.ended.is_(None)))
            ends = select(runs.role, runs.index, runs.run, runs.ended).where(*_of(t.RUNS, found.id, attempt))
            return Known(
                attempt=attempt,
                is_open=attempt >= 0 and tried["ended"] is None and not tried["gap"],
                epoch=newest(_newest(t.EPOCHS, found.id, attempt)).get("epoch", -1),
                generation=newest(_newest(t.SPECS, found.id)).get("generation", -1),
                runs={
                    (role, index): (run, ended is not None)
                    for role, index, run, ended in connection.execute(ends.order_by(runs.run))
                },
                span=(span["state"], span["began"]) if span else None,
                seen=max(found.seen, at_work),
            )

    def _rows(self, query: Select[Any]) -> list[Row]:
        with self._engine.connect() as connection:
            return [dict(row) for row in connection.execute(query).mappings()]


def _newest(table: Table, *key: Any) -> Select[Any]:
    """Return the query for the rows that have the beginning of a key, the last one first."""
    return _query(table, *key).order_by(*(column.desc() for column in table.primary_key.columns))


def _query(table: Table, *key: Any, **values: Any) -> Select[Any]:
    return select(*_columns(table)).where(*_of(table, *key, **values))


def _of(table: Table, *key: Any, **values: Any) -> list[ColumnElement[bool]]:
    """Return the conditions that rows have the beginning of a key, and values; None is any."""
    wanted = dict(zip(table.primary_key.columns.keys(), key, strict=False)) | values
    return [table.c[name] == value for name, value in wanted.items() if value is not None]


def _find(connection: Connection, search: Search) -> list[int]:
    """Return the numbers of the Frameworks of a page, the newest first.

    Each index of FRAMEWORKS is in the order of a page, as that of a label's value is: a search reads little more than
    what it shows.
    """
    visible, (way, where) = search.namespaces, _way(connection, search)
    id_, created = (_F.id, _F.created) if way is None else (way.c.id, way.c.created)
    query = select(id_, created).order_by(created.desc(), id_.desc()).limit(search.limit)
    if way is not None:
        query = query.join_from(way, t.FRAMEWORKS, id_ == _F.id)
    if search.since is not None:
        where.append(created >= search.since)
    if search.until is not None:
        where.append(created < search.until)
    if search.before is not None:
        where.append(tuple_(created, id_) < search.before)
    groups: Collection[Any] = [visible] if visible is None or way is not None or len(visible) > _SOME else visible
    found: list[tuple[float, int]] = []
    for group in groups:
        one = query.where(*where, *_equal(search, group, is_served=way is not None))
        found += [(row.created, row.id) for row in connection.execute(one)]
    found.sort(reverse=True)
    return [id_ for _, id_ in found[: search.limit]]


def _equal(search: Search, namespaces: Any, *, is_served: bool) -> Iterator[ColumnElement[bool]]:
    """Yield conditions of which an index serves the first alone, unless something else does.

    What comes later is in that index, too. A database would have to guess which index is best, and guesses badly.
    """
    wanted = {"person": search.person, "namespace": namespaces, "state": search.state, "result": search.result}
    for name, value in wanted.items():
        if isinstance(value, frozenset):
            yield func.coalesce(_F[name], "").in_(value)
        elif value:
            yield (func.coalesce(_F[name], "") if is_served else _F[name]) == value
            is_served = True


def _way(connection: Connection, search: Search) -> tuple[FromClause | None, list[ColumnElement[bool]]]:
    """Return `id` and `created` of the Frameworks to look at for a label or a name, None for all, and conditions.

    The rows of a label of any value, or of the beginning of a name, are not in the order of a page: few can be sorted,
    among many the newest are found soon.
    """
    name, (key, has_value, value) = search.name, search.label.partition("=")
    labels = select(t.LABELS.c.framework.label("id"), t.LABELS.c.created).where(t.LABELS.c.key == key)
    way: FromClause | None = labels.where(t.LABELS.c.value == value).subquery() if has_value else None
    choices: list[tuple[Select[Any], ColumnElement[bool]]] = []
    if key and not has_value:
        choices.append((labels, exists().where(t.LABELS.c.framework == _F.id, t.LABELS.c.key == key)))
    if name:
        begins = select(_F.id, _F.created).where(_F.name >= name, _F.name < name + chr(0x10FFFF))
        # Many are not looked for by the index of names, so that the condition is one that it cannot serve.
        choices.append((begins, func.substr(_F.name, 1, len(name)) == name))
    where = []
    for rows, condition in choices:
        few = rows.limit(_FEW).subquery()
        if way is None and connection.scalars(select(func.count()).select_from(few)).one() < _FEW:
            way = few
        else:
            where.append(condition)
    return way, where
