import os

from sqlalchemy import func, select

from frameworkhistory.archive.database import Database
from frameworkhistory.archive.retention import DROPPED, SHORTENED, Retention
from frameworkhistory.archive.tables import FRAMEWORKS
from frameworkhistory.archive.writer import Writer
from tests.history.archive.made import DAY, attempt, changes, log, run, stored

NOW = 100 * DAY


def _dropped(retention: Retention) -> list[list[int]]:
    """Drop all that is to go."""
    found = []
    while due := retention.due():
        assert retention.drop(*due) == []
        found.append(due[0])
    return found


def test_what_was_deleted_too_long_ago_goes_with_all_its_parts_and_tells_its_logs(database: Database) -> None:
    old, young, left = (
        changes("old", deleted=NOW - 11 * DAY),
        changes("young", deleted=NOW - 9 * DAY),
        changes("exists"),
    )
    for one in (old, young, left):
        one.labels, one.whole, one.attempts, one.runs = {"k": "v"}, b"", [attempt(ended=NOW - 12 * DAY)], [run()]
        one.epochs, one.specs = [{"attempt": 0, "epoch": 0}], [{"generation": 1, "seen": 0.0, "document": b""}]
        one.spans = [{"began": 1.0, "attempt": 0, "state": "running"}]
        one.events = [{"uid": "e", "first": 0.0, "last": 0.0}]
        one.logs = [log(one.uid), log(f"none-{one.uid}", key="", gap="gone")]
    Writer(database.engine).apply([old, young, left])
    Writer(database.engine).gap(0.0, 1.0, "long ago")
    retention = Retention(database.engine, days=10, size=None, now=lambda: NOW)
    before = stored(database.engine)
    due = retention.due()
    assert due
    assert (len(due[0]), due[1]) == (1, ["logs/old"])
    assert retention.due() == due, "what was not dropped is told again"
    late = changes("old", deleted=NOW - 11 * DAY)
    late.logs = [log("late")]
    Writer(database.engine).apply([late])
    assert retention.drop(*due) == ["logs/late"], "of the object of a log whose row came meanwhile nobody else knows"
    assert retention.due() is None
    after = stored(database.engine)
    assert sorted(row["uid"] for row in after["frameworks"]) == ["exists", "young"]
    parts = before.keys() - {"frameworks", "days", "gaps"}
    assert {name: len(after[name]) / len(before[name]) for name in parts} == dict.fromkeys(parts, 2 / 3)
    assert after["days"]
    retention.tidy()
    assert stored(database.engine).keys() == parts | {"frameworks"}


def test_few_that_are_large_go_at_a_time(database: Database) -> None:
    sizes = {"a": (1, 1), "b": (19_999, 1), "c": (10_000, 2**31 - 1), "d": (1, 0), "e": (0, 5)}
    for number, (uid, (tasks, attempts)) in enumerate(sizes.items()):
        one = changes(uid, deleted=float(number), tasks=tasks, attempts=attempts)
        Writer(database.engine).apply([one])
    found = _dropped(Retention(database.engine, days=1, size=None, now=lambda: NOW))
    assert [len(frameworks) for frameworks in found] == [2, 1, 2]


def test_without_bounds_all_stays(database: Database) -> None:
    Writer(database.engine).apply([changes(deleted=1.0)])
    retention = Retention(database.engine, days=None, size=None)
    retention.tidy()
    assert retention.due() is None


def test_a_database_that_is_too_large_loses_what_was_deleted_first_until_it_is_small_enough(database: Database) -> None:
    def count() -> int:
        with database.engine.connect() as connection:
            return connection.scalar(select(func.count()).select_from(FRAMEWORKS)) or 0

    writer, size = Writer(database.engine), 4_000_000
    for number in range(0, 2000, 100):
        batch = [
            changes(f"{one}", document=os.urandom(3000), deleted=2000.0 - one) for one in range(number, number + 100)
        ]
        for one in batch:
            one.runs = [run(index, pod="pod" * 20) for index in range(3)]
        writer.apply(batch)
    retention = Retention(database.engine, days=None, size=size)
    _dropped(retention)
    left = count()
    assert 2000 * 0.3 < left < 2000 * 0.6, "about half of what was there"
    uids = sorted(int(row["uid"]) for row in stored(database.engine)["frameworks"])
    assert uids == list(range(left)), "the last that were deleted"
    assert _dropped(retention) == [], "room that is free within files is room"
    writer.apply([changes(f"exists {one}", document=os.urandom(3000)) for one in range(2000)])
    _dropped(retention)
    assert [row["uid"] for row in stored(database.engine)["frameworks"]] == [f"exists {one}" for one in range(2000)]


def test_what_fills_the_database_is_of_the_namespace_that_loses_for_it(database: Database) -> None:
    others = [changes(f"{one}", namespace="others", deleted=1.0 * one) for one in range(100)]
    gone = [changes(f"gone-{one}", document=os.urandom(100_000), deleted=1000.0 + one) for one in range(20)]
    Writer(database.engine).apply([*others, *gone])
    retention = Retention(database.engine, days=None, size=1_500_000)
    _dropped(retention)
    left = [row["uid"] for row in stored(database.engine)["frameworks"]]
    assert left[:100] == [one.uid for one in others]
    assert left[100:] == [one.uid for one in gone[-len(left) + 100 :]]
    assert 5 < len(left) - 100 < 15
    Writer(database.engine).apply([changes("exists", document=os.urandom(2_000_000))])
    _dropped(retention)
    left = [row["uid"] for row in stored(database.engine)["frameworks"]]
    assert left == [*(one.uid for one in others), "exists"], "they fill less than their part of the size"


def test_what_has_ended_first_goes_of_frameworks_that_exist_of_the_namespace_that_fills_most(
    database: Database,
) -> None:
    """A Task that was retried a hundred times a second filled the volume of all, for good."""
    writer, few, many = Writer(database.engine), changes("few", namespace="few"), changes("many")
    few.runs = [run(run=number, ended=1.0 + number, diagnostics="x" * 1000) for number in range(10)]
    few.attempts = [attempt(0)]
    many.attempts = [attempt(0, ended=5000.0, roster=os.urandom(1000)), attempt(1)]
    many.epochs = [{"attempt": number, "epoch": 0, "began": 5000.0 * number} for number in (0, 1)]
    many.spans = [{"began": 1.0 * number, "attempt": 0, "state": "running", "ended": 1.0 + number} for number in (0, 1)]
    many.spans += [{"began": 2.0, "attempt": 1, "state": "waiting"}]
    rows = [run(run=number, ended=1.0 + number, diagnostics=os.urandom(500).hex()) for number in range(2000)]
    rows[0]["ended"], rows[0]["gap"] = None, "nobody has seen it"
    many.runs = [*rows, run(attempt=1, run=0, ended=9000.0), run(attempt=1, run=1)]
    many.logs = [log("first", key="", gap="lost"), log("stored"), log("last", key="", attempt=1, run=1)]
    writer.apply([few, many])
    retention = Retention(database.engine, days=None, size=None)
    assert not retention.shorten()
    with database.engine.begin() as connection:
        retention.size = int(retention._used(connection) / 2)
    assert not retention.shorten()
    after = stored(database.engine)
    assert 0.3 < len(after["runs"]) / 2000 < 0.6
    assert sum(row["framework"] == 1 for row in after["runs"]) == 10, "it fills less than its part"
    oldest = min(row["ended"] for row in after["runs"] if row["framework"] == 2 and row["ended"])
    assert oldest > 500
    assert [row["pod_uid"] for row in after["logs"]] == ["last", "stored"]
    assert [(row["ended"], row["what"]) for row in after["gaps"]] == [(oldest - 1, SHORTENED)]
    assert [row["began"] for row in after["spans"]] == [2.0]
    assert not retention.shorten()
    assert stored(database.engine) == after, "some room is left"
    retention.forget([row for row in after["logs"] if row["key"]])
    assert [row["pod_uid"] for row in stored(database.engine)["logs"]] == ["last"], "of a run that is known"
    assert not Retention(database.engine, days=None, size=1).shorten()
    left = stored(database.engine)
    assert [row["ended"] for row in left["gaps"]] == [9000.0]
    assert [(row["framework"], row["attempt"], row["run"]) for row in left["runs"]] == [(1, 0, 9), (2, 1, 1)]
    assert [(row["framework"], row["attempt"]) for row in left["attempts"]] == [(1, 0), (2, 1)]
    assert [(row["attempt"], row["epoch"]) for row in left["epochs"]] == [(1, 0)]
    again = changes("many", version=2)
    again.runs = [run(attempt=1, run=1, ended=5.0), run(attempt=1, run=2)]
    writer.apply([again])
    assert not Retention(database.engine, days=None, size=1).shorten()
    after = stored(database.engine)
    assert ([row["ended"] for row in after["gaps"]], len(after["runs"])) == ([9000.0], 2), "it never moves back"


def test_the_oldest_logs_go_of_the_namespace_that_has_most_of_them_and_their_rows_say_so(database: Database) -> None:
    namespaces = {"few": 3, "many": 12, "most": 20}
    for namespace, number in namespaces.items():
        one = changes(namespace, namespace=namespace, deleted=1.0 if namespace == "few" else None)
        one.runs = [run()]
        one.logs = [log(f"{namespace}-{place}", taken=1.0 + place, packed=100_000) for place in range(number)]
        one.logs += [log(f"{namespace}-before", taken=0.5, bytes=500_000), log(f"{namespace}-none", key="", gap="lost")]
        Writer(database.engine).apply([one])
    retention = Retention(database.engine, days=None, size=None, log_size=2_000_000)
    gone: list[str] = []
    while logs := retention.logs():
        gone += [row["key"] for row in logs]
        assert retention.logs() == logs, "what was not dropped is told again"
        retention.forget(logs)
    rows = stored(database.engine)["logs"]
    assert {row["pod_uid"] for row in rows if row["gap"] == DROPPED} == {key.removeprefix("logs/") for key in gone}
    kept = {name: [row["taken"] for row in rows if row["key"].startswith(f"logs/{name}-")] for name in namespaces}
    assert sorted(map(len, kept.values())) == [4, 6, 7], "those with most have alike, and what fits is kept"
    for name, found in kept.items():
        times = [0.5, *(1.0 + place for place in range(namespaces[name]))]
        assert sorted(found) == times[-len(found) :]
    assert Retention(database.engine, days=None, size=None).logs() == []
