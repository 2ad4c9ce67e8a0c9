import contextlib
import os
from collections import Counter
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy.exc import DBAPIError

from frameworkhistory.archive.changes import Changes, Row
from frameworkhistory.archive.database import Database, writing
from frameworkhistory.archive.reader import Reader
from frameworkhistory.archive.tables import FRAMEWORKS
from frameworkhistory.archive.writer import Writer
from tests.history.archive.made import DAY, attempt, changes, is_killed, log, run, stored
from tests.support.postgres import Postgres

UIDS = ("a", "b")
_ENDS: list[Row] = [
    {"ended": None, "result": None},
    {"ended": 5.0, "result": "Succeeded", "phrase": "", "code": 0},
    {"ended": 1.5 * DAY, "result": "Failed", "phrase": "OOM", "code": 137},
]


def _version(uid: str, version: int, end: Row, labels: dict[str, str], tasks: int) -> Changes:
    """All that a Framework is in one version, told by numbers that no other version has."""
    made = changes(uid, version=version, seen=float(version), state=f"state {version}")
    made.labels, made.whole = labels, f"{uid}{version}".encode()
    made.attempts = [attempt(running=float(version), tasks=tasks, **end)]
    run_end = _ENDS[1 + UIDS.index(uid)] if version >= 10 else _ENDS[0]  # which is never taken back
    made.runs = [run(index, node=f"node-{version % 2}", **run_end) for index in range(2)]
    made.epochs = [{"attempt": 0, "epoch": 0, "message": f"{version}"}]
    return made


VERSIONS = st.builds(
    _version,
    st.sampled_from(UIDS),
    st.integers(8, 12),  # 9 is less than 10 as a number alone
    st.sampled_from(_ENDS),
    st.dictionaries(st.sampled_from("kl"), st.sampled_from("vw")),
    st.integers(0, 3),
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batches=st.lists(st.lists(VERSIONS, max_size=4), max_size=5))
def test_whatever_comes_in_which_order_and_how_often_the_newest_stays_and_is_counted_once(
    database: Database, batches: list[list[Changes]]
) -> None:
    with writing(database.engine) as connection:
        for table in reversed(FRAMEWORKS.metadata.sorted_tables):
            connection.execute(table.delete())
    newest: dict[str, Changes] = {}
    for batch in batches:
        Writer(database.engine).apply(batch)
        for one in batch:
            assert one.framework
            known = newest.get(one.uid)
            if known is None or int(one.framework["version"]) >= int((known.framework or {})["version"]):
                newest[one.uid] = one
    found = stored(database.engine)
    ids = {row["uid"]: row["id"] for row in found.get("frameworks", [])}
    assert ids.keys() == newest.keys()
    for uid, one in newest.items():
        assert one.framework
        parts: dict[str, list[Row]] = {
            "frameworks": [one.framework],
            "wholes": [{"document": one.whole}],
            "labels": [{"key": key, "value": value} for key, value in sorted((one.labels or {}).items())],
            **{name: getattr(one, name) for name in ("attempts", "runs", "epochs")},
        }
        for name, rows in parts.items():
            key = "id" if name == "frameworks" else "framework"
            own = [row for row in found.get(name, []) if row[key] == ids[uid]]
            assert [{column: row[column] for column in rows[0]} for row in own] == rows if rows else not own, name
    days, failures = _counted(newest.values())
    assert {
        row["day"]: (row["attempts"], row["failed"], row["running"]) for row in found.get("days", []) if row["attempts"]
    } == days
    keys = ("day", "node", "phrase", "code")
    assert (
        Counter({tuple(row[key] for key in keys): row["count"] for row in found.get("failures", []) if row["count"]})
        == failures
    )


def _counted(newest: Any) -> tuple[dict[int, tuple[int, int, float]], Counter[tuple[Any, ...]]]:
    """What the days must come to."""
    days: dict[int, tuple[int, int, float]] = {}
    failures: Counter[tuple[Any, ...]] = Counter()
    for one in newest:
        for row in (*one.attempts, *one.runs):
            if row["ended"] is None:
                continue
            day, is_failed = int(row["ended"] // DAY), row["result"] == "Failed"
            if "role" not in row:
                attempts, failed, running = days.get(day, (0, 0, 0.0))
                days[day] = attempts + 1, failed + is_failed, running + row["running"] * row["tasks"]
            if is_failed:
                failures[day, row.get("node", ""), row["phrase"], row["code"]] += 1
    return days, failures


def test_a_row_changes_in_the_columns_that_it_names(database: Database) -> None:
    writer = Writer(database.engine)
    first = changes(person="me", state="AttemptRunning")
    first.labels, first.attempts, first.whole = {"key": "value"}, [attempt(started=1.0, queued=3.0)], b"[1]"
    writer.apply([first])
    writer.apply(
        [Changes("uid", "team", framework={"deleted": 9.0}, attempts=[{"attempt": 0, "namespace": "team", "ran": 2.0}])]
    )
    found = stored(database.engine)
    names = ("person", "state", "deleted", "version")
    assert [found["frameworks"][0][name] for name in names] == ["me", "AttemptRunning", 9.0, "1"]
    assert [found["attempts"][0][name] for name in ("started", "queued", "ran", "tasks")] == [1.0, 3.0, 2.0, 2]
    assert (found["labels"][0]["value"], found["wholes"][0]["document"]) == ("value", b"[1]")


def test_an_older_version_adds_what_nobody_has_seen_since(database: Database) -> None:
    new, old = changes(version=2, state="new"), changes(version=1, state="old")
    new.runs, old.runs = [run(0, state="new")], [run(0, state="old"), run(1, state="old")]
    for one in (new, old):
        Writer(database.engine).apply([one])
    found = stored(database.engine)
    assert found["frameworks"][0]["state"] == "new"
    assert [row["state"] for row in found["runs"]] == ["new", "old"]


def test_parts_of_a_framework_that_nobody_knows_are_dropped_and_hinder_no_other(database: Database) -> None:
    Writer(database.engine).apply([Changes("unknown", "team", runs=[run()], whole=b"", labels={}), changes()])
    assert stored(database.engine).keys() == {"frameworks"}


def test_text_of_any_kind_and_length_is_stored(database: Database) -> None:
    hostile = "\0\x1b[2J<script>'\"\\;--\U0001f600" + "x" * 10_000
    made = changes(person=hostile, diagnostics=hostile)
    made.labels, made.runs = {"key": hostile}, [run(0, node=hostile, phrase=hostile, result="Failed", ended=1.0)]
    Writer(database.engine).apply([made, made])
    clean, found = hostile.replace("\0", "\ufffd"), stored(database.engine)
    assert (found["frameworks"][0]["person"], found["frameworks"][0]["diagnostics"]) == (clean[:253], clean)
    assert (found["labels"][0]["value"], found["failures"][0]["phrase"]) == (clean[:63], clean[:256])


def test_ten_thousand_tasks_that_fail_at_once_are_stored_and_counted(database: Database) -> None:
    made = changes()
    made.runs = [run(index, node=f"node-{index % 10}", ended=1.0, result="Failed") for index in range(10_000)]
    for _ in range(2):
        Writer(database.engine).apply([made])
    assert [row["count"] for row in Reader(database.engine).statistics(None, 0, 0)["nodes"]] == [1000] * 10


def test_of_a_program_that_is_killed_while_it_writes_nothing_is_left_half(database: Database, url: str) -> None:
    first, then = changes("uid", version=1), changes("uid", version=2, state="new")
    first.labels = {"old": ""}
    then.labels, then.attempts, then.runs = {"new": ""}, [attempt(ended=1.0)], [run()]
    Writer(database.engine).apply([first])
    before = stored(database.engine)
    for writes in count(1):
        left = iter(range(writes - 1, -1, -1))

        def is_last(statement: str, left: Iterator[int] = left) -> bool:
            return statement.startswith(("INSERT", "UPDATE", "DELETE")) and next(left) == 0

        if not is_killed(url, is_last, lambda database: Writer(database.engine).apply([then, changes("other")])):
            break
        assert stored(database.engine) == before, f"after {writes} writes"
    assert writes == 8  # a Framework each, labels dropped and added, the attempt, the run, the day, and then none
    assert len(stored(database.engine)["frameworks"]) == 2


@contextlib.contextmanager
def _sqlite_is_full(database: Database) -> Iterator[None]:
    with database.engine.connect() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        connection.exec_driver_sql(f"PRAGMA max_page_count={pages}").close()
    yield
    with database.engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA max_page_count=1000000000").close()


@contextlib.contextmanager
def _postgres_is_away(server: Postgres) -> Iterator[None]:
    server.stop()
    try:
        yield
    finally:
        server.start()


def test_a_database_that_was_full_or_away_stores_all_or_nothing_and_works_again(
    database: Database, request: pytest.FixtureRequest
) -> None:
    writer, reader = Writer(database.engine), Reader(database.engine)
    writer.apply([changes("before")])
    large = [changes("small"), changes("large", document=os.urandom(1_000_000))]
    is_sqlite = database.engine.dialect.name == "sqlite"
    with _sqlite_is_full(database) if is_sqlite else _postgres_is_away(request.getfixturevalue("server")):
        for _ in range(2):
            with pytest.raises(DBAPIError) as raised:
                writer.apply(large)
            assert "small" not in str(raised.value)
    assert list(reader.existing()) == ["before"]
    writer.apply(large)
    assert len(reader.existing()) == 3


def test_of_a_framework_the_newest_specs_and_events_stay(database: Database) -> None:
    writer, one, two = Writer(database.engine), changes("one"), changes("two")
    two.specs = [{"generation": number, "seen": 0.0, "document": b""} for number in range(1, 9)]
    for generation in (1, 3, 4, 5, 2):
        one.specs = [{"generation": generation, "seen": 0.0, "document": os.urandom(400_000)}]
        one.events = [{"uid": f"{generation}-{n}", "first": 0.0, "last": 1.0 * generation} for n in range(400)]
        writer.apply([one, two])
    found = stored(database.engine)
    generations = [row["generation"] for row in found["specs"]]
    assert generations == [3, 4, 5, *range(1, 9)]
    times = [row["last"] for row in found["events"]]
    assert [times.count(time) for time in (1.0, 2.0, 3.0, 4.0, 5.0)] == [0, 0, 225, 400, 400]
    one.specs, one.events = [{"generation": 6, "seen": 0.0, "document": os.urandom(3_000_000)}], []
    writer.apply([one])
    assert [row["generation"] for row in stored(database.engine)["specs"]] == [6, *range(1, 9)]


def test_of_a_framework_the_newest_rosters_stay_and_all_attempts(database: Database) -> None:
    other = changes("other")
    other.attempts = [attempt(roster=os.urandom(400_000))]
    Writer(database.engine).apply([other])
    for number in range(6):
        known = changes()
        known.attempts = [attempt(number, roster=os.urandom(400_000)), attempt(number + 1)]
        Writer(database.engine).apply([known])
    rows = stored(database.engine)["attempts"]
    assert [row["roster"] is not None for row in rows] == [True, *[False] * 3, *[True] * 3, False]


def test_a_mark_and_a_gap_are_remembered(database: Database) -> None:
    writer, reader = Writer(database.engine), Reader(database.engine)
    assert reader.mark("at work") is None
    for value in ("1", "2"):
        writer.mark("at work", value)
    writer.gap(1.0, 2.0, "not at work")
    writer.gap(3.0, 4.0, "away")
    assert reader.mark("at work") == "2"
    assert [row["what"] for row in reader.gaps(2.5)] == ["away"]


def test_the_logs_of_a_pod_are_found_by_its_uid(database: Database) -> None:
    made = changes()
    made.logs = [log("pod-a", restart=restart) for restart in (0, 1)] + [log("pod-b")]
    Writer(database.engine).apply([made])
    found = Reader(database.engine).pod_logs("uid", "pod-a")
    assert [(row["pod_uid"], row["restart"], row["gap"], row["is_whole"]) for row in found] == [
        ("pod-a", 0, "", True),
        ("pod-a", 1, "", True),
    ]
    assert Reader(database.engine).pod_logs("other", "pod-a") == []
