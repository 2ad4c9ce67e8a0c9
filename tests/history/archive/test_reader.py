import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from sqlalchemy import event

from frameworkhistory.archive import reader as module
from frameworkhistory.archive.changes import Changes, Row
from frameworkhistory.archive.database import Database
from frameworkhistory.archive.reader import Reader, Search
from frameworkhistory.archive.writer import Writer
from tests.history.archive.made import DAY, attempt, changes, log, run
from tests.support.rows import each

MANY = 120
STATES = "AttemptRunning", "Completed"
ALL = frozenset({"a", "b", "c"})


def _made() -> list[Changes]:
    random, made = Random(1), []
    for number in range(MANY):
        one = changes(
            f"uid-{number}",
            namespace=random.choice("abc"),
            name=random.choice(["train", "train-a", "train_", "trainz", "eval", "é"]) + random.choice(["", "-1"]),
            created=float(random.randrange(20)),  # many at the same time
            state=random.choice(STATES),
            result=random.choice([None, "Failed", "Succeeded"]),
            person=random.choice(["me", "you"]),
        )
        one.labels = {key: random.choice("vw") for key in ("k", "l") if random.random() < 0.5}
        made.append(one)
    return made


MADE = _made()
SEARCHES: list[dict[str, Any]] = [
    {},
    {"namespaces": frozenset()},
    {"namespaces": frozenset({"a"})},
    {"namespaces": frozenset({"a", "b"})},
    {"namespaces": ALL, "state": "Completed"},
    {"name": "train"},
    {"name": "train-a"},
    {"name": "é"},
    {"name": "nobody"},
    {"name": "train", "namespaces": frozenset({"c"}), "result": "Failed"},
    {"name": "train", "namespaces": frozenset({"b", "c"})},
    {"state": "Completed"},
    {"result": "Failed"},
    {"person": "me", "state": "AttemptRunning"},
    {"label": "k"},
    {"label": "k=v"},
    {"label": "k="},
    {"label": "other"},
    {"label": "k=v", "namespaces": frozenset({"a"})},
    {"label": "k=v", "name": "train", "person": "you"},
    {"label": "l", "name": "train", "namespaces": frozenset({"a", "c"})},
    {"since": 5.0, "until": 12.0},
    {"since": 5.0, "until": 12.0, "label": "k=w", "namespaces": ALL},
    {"since": 5.0, "until": 12.0, "name": "train"},
]


def _expected(search: Search) -> set[str]:
    return {
        one.uid
        for one in MADE
        if (row := one.framework) is not None
        and (search.namespaces is None or row["namespace"] in search.namespaces)
        and row["name"].startswith(search.name)
        and all(
            not getattr(search, name) or row[name] == getattr(search, name) for name in ("state", "result", "person")
        )
        and _has(one.labels or {}, search.label)
        and (search.since is None or row["created"] >= search.since)
        and (search.until is None or row["created"] < search.until)
    }


def _has(labels: dict[str, str], wanted: str) -> bool:
    key, has_value, value = wanted.partition("=")
    return not wanted or (key in labels and (not has_value or labels[key] == value))


def _pages(reader: Reader, search: Search) -> Iterator[list[Row]]:
    while page := reader.frameworks(search):
        yield page
        search = dataclasses.replace(search, before=(page[-1]["created"], page[-1]["id"]))


@pytest.fixture(params=["sorted", "in order"])
def searched(database: Database, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Reader:
    """A reader of all of them, for whom what is found is few, or too many to be sorted."""
    if request.param == "in order":
        monkeypatch.setattr(module, "_FEW", 2)
        monkeypatch.setattr(module, "_SOME", 1)
    Writer(database.engine).apply(MADE)
    return Reader(database.engine)


@each("wanted", SEARCHES)
def test_pages_have_all_that_is_looked_for_once_and_the_newest_first(searched: Reader, wanted: dict[str, Any]) -> None:
    search = Search(**{"namespaces": None, "limit": 7, **wanted})
    rows = [row for page in _pages(searched, search) for row in page]
    assert sorted(row["uid"] for row in rows) == sorted(_expected(search))
    keys = [(row["created"], row["id"]) for row in rows]
    assert keys == sorted(keys, reverse=True)
    assert not any("document" in row for row in rows)


def test_of_a_name_the_newest_is_found_or_that_of_a_uid(database: Database) -> None:
    reader = Reader(database.engine)
    assert reader.namespaces() == []
    made = [changes(f"{number}", name="job", created=float(number % 3), namespace="b") for number in range(5)]
    Writer(database.engine).apply([*made, changes("else", name="job", created=9.0, namespace="a", deleted=10.0)])
    found = [reader.framework("b", "job", uid) for uid in ("", "1", "else")]
    assert [row and row["uid"] for row in found] == ["2", "1", None]
    assert reader.framework("b", "jo") is None
    assert reader.namespaces() == ["a", "b"]
    assert sorted(reader.existing()) == ["0", "1", "2", "3", "4"]


def test_documents_come_back_as_they_were(database: Database) -> None:
    reader, made = Reader(database.engine), changes(document=b"[0]")
    made.whole, made.attempts, made.labels = b"[1]" * 1000, [attempt(roster=b"[2]"), attempt(1)], {"k": "v"}
    made.specs = [{"generation": number, "seen": 10.0 * number, "document": b"%d" % number} for number in (1, 2)]
    Writer(database.engine).apply([changes("other"), made])
    row = reader.framework("team", "uid")
    assert row
    id_ = row["id"]
    assert (reader.document(id_), reader.whole(id_), reader.roster(id_, 0)) == (b"[0]", b"[1]" * 1000, b"[2]")
    assert (reader.specs(id_), reader.spec(id_, 2)) == ([(1, 10.0), (2, 20.0)], b"2")
    assert (reader.roster(id_, 1), reader.spec(id_, 3), reader.document(0), reader.whole(0)) == (None, None, None, None)
    assert reader.labels(id_) == {"k": "v"}
    assert [(one["attempt"], "roster" in one) for one in reader.attempts(id_)] == [(0, False), (1, False)]


def test_parts_of_a_framework_are_listed_in_their_order_and_by_pages(database: Database) -> None:
    reader, made = Reader(database.engine), changes()
    keys = [(tried, role, index, 0) for tried in range(2) for role in ("ps", "worker") for index in range(12)]
    keys.append((1, "worker", 3, 1))
    names = ("attempt", "role", "index", "run")
    rows: list[Row] = [dict(zip(names, key, strict=True)) for key in reversed(keys)]
    made.runs = [run(**row, result="Failed" if row["index"] == 3 else None) for row in rows]
    made.epochs = [{"attempt": tried, "epoch": epoch} for tried in (1, 0) for epoch in (1, 0)]
    made.spans = [{"began": began, "attempt": 0, "state": "running"} for began in (2.0, 1.0)]
    made.events = [{"uid": f"{last}", "first": 0.0, "last": float(last)} for last in (3, 1, 2)]
    made.logs = [log(f"pod-{taken}", index=3, taken=float(taken)) for taken in (2, 1)] + [log("other", attempt=1)]
    Writer(database.engine).apply([changes("other"), made])
    row = reader.framework("team", "uid")
    assert row
    id_, found, after = row["id"], list[Any](), None
    while page := reader.runs(id_, after=after, limit=5):
        found += [tuple(one[name] for name in names) for one in page]
        after = found[-1]
    assert found == sorted(keys)
    assert [one["index"] for one in reader.runs(id_, 1, "worker", (1, "worker", 8, 0))] == [9, 10, 11]
    assert [(one["index"], one["run"]) for one in reader.runs(id_, 1, "worker", failed=True)] == [(3, 0), (3, 1)]
    assert (reader.count_runs(id_), reader.count_runs(id_, 0)) == (49, 24)
    assert [one["run"] for one in reader.run_history(id_, 1, "worker", 3)] == [0, 1]
    assert len(reader.run_history(id_, None, "worker", 3)) == 3
    assert [(one["attempt"], one["epoch"]) for one in reader.epochs(id_)] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert len(reader.epochs(id_, 1)) == 2
    assert [one["began"] for one in reader.spans(id_)] == [1.0, 2.0]
    assert [one["uid"] for one in reader.events(id_, 2)] == ["2", "3"]
    assert [one["pod_uid"] for one in reader.logs(id_)] == ["pod-1", "pod-2", "other"]
    assert [one["pod_uid"] for one in reader.logs(id_, 0, "worker", 3, 0, limit=1)] == ["pod-1"]


def test_statistics_are_of_whole_days_and_of_the_namespaces_that_may_be_seen(database: Database) -> None:
    failed: Row = {"result": "Failed", "phrase": "OOM", "code": 137}
    ends: list[tuple[int, str, Row]] = [(1, "a", failed), (2, "a", {}), (2, "b", failed), (9, "a", failed)]
    for day, namespace, end in ends:
        made = changes(f"{namespace}{day}", namespace=namespace)
        spent = {"running": 10.0, "lost": 4.0 if end else None, "ended": day * DAY + 5, **end}
        made.attempts = [attempt(tasks=3, **{"namespace": namespace, **spent})]
        made.runs = [run(**{"namespace": namespace, "node": f"node-{namespace}", "ended": day * DAY, **end})]
        Writer(database.engine).apply([made])
    reader = Reader(database.engine)
    week = reader.statistics(None, 1.5 * DAY, 2.5 * DAY)
    total = {name: sum(row[name] for row in week["days"]) for name in week["days"][0].keys() - {"day"}}
    numbers = {name: number for name, number in total.items() if number}
    assert numbers == {"attempts": 3, "failed": 2, "running": 90.0, "lost": 24.0}
    assert [(row["day"], row["attempts"]) for row in week["days"]] == [(1, 1), (2, 2)]
    assert [(row["namespace"], row["lost"]) for row in week["namespaces"]] == [("a", 12.0), ("b", 12.0)]
    assert week["failures"] == [{"phrase": "OOM", "code": 137, "count": 2}]
    assert week["nodes"] == [{"node": "node-a", "count": 1}, {"node": "node-b", "count": 1}]
    one = reader.statistics(frozenset({"b"}), 0.0, 9.0 * DAY)
    assert ([row["attempts"] for row in one["days"]], [row["node"] for row in one["nodes"]]) == ([1], ["node-b"])
    assert not any(reader.statistics(frozenset(), 0.0, 9.0 * DAY).values())


def test_the_beginning_of_a_name_that_many_have_is_looked_for_without_their_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Among a million Frameworks, five namespaces of a person took a second."""
    monkeypatch.setattr(module, "_FEW", 0)
    asked: list[tuple[str, Any]] = []
    with contextlib.closing(Database(f"sqlite:///{tmp_path}/archive.db")) as database:
        database.open()
        event.listen(database.engine, "before_cursor_execute", lambda *args: asked.append(args[2:4]))
        Reader(database.engine).frameworks(Search(ALL, name="train"))
        with database.engine.connect() as connection:
            plans = [
                str(connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}", one).all()) for sql, one in tuple(asked)
            ]
    assert sum("COVERING INDEX frameworks_namespace_name" in plan for plan in plans) == len(ALL)
