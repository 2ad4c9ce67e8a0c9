"""What a state of a Framework adds to the archive, whatever of its life was seen."""

import itertools
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frameworkcontroller.api.framework import FRAMEWORK_DECODER, Framework
from frameworkhistory.archive.changes import Changes, Known
from frameworkhistory.follow import records
from tests.client import documents
from tests.client.documents import Json

KEYS = {
    "attempts": ("attempt",),
    "epochs": ("attempt", "epoch"),
    "runs": ("attempt", "role", "index", "run"),
    "spans": ("began",),
    "specs": ("generation",),
}
NOTHING = Known()


def stamp(second: int) -> str:
    return f"2026-01-01T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}Z"


def seconds(second: int) -> float:
    return 1_767_225_600.0 + second


def task(index: int, run: int, *, ended: bool = False, code: int = 0) -> Json:
    end = documents.completion(code, "Failed", diagnostics="x") if ended else None
    own = {"startTime": stamp(run), "podUID": f"pod-{index}-{run}", "completionTime": stamp(run + 1) if ended else None}
    state = "AttemptCompleted" if ended else "AttemptRunning"
    return documents.task(index, state, attempt=run, end=end, node="node-1", of_attempt=own)


def worker(gpus: str) -> Json:
    """A TaskRole of two Tasks with so many GPUs each."""
    pod = {"spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": gpus}}}]}}
    return documents.role("worker", 2) | {"task": {"pod": pod}}


def framework(
    *tasks: Json,
    version: int = 1,
    attempt: int = 0,
    ledger: tuple[str, int] = ("running", 0),
    epochs: tuple[int, ...] = (),
    metadata: Json | None = None,
    gpus: str = "4",
    **more: Any,
) -> Framework:
    """A Framework `fw` as it is stored, of some user."""
    restarts = [{"epoch": one, "time": stamp(one), "reason": "Exited", "task": "worker-0", "code": 1} for one in epochs]
    names = {"name": "fw", "namespace": "lab", "uid": "uid-1", "resourceVersion": str(version)}
    times = {"creationTimestamp": stamp(0), "managedFields": [{"manager": "kubectl"}]}
    own = {"startTime": stamp(attempt)} | ({"gangEpoch": max(epochs)} if epochs else {})
    found = documents.framework(
        worker(gpus),
        metadata={**names, **times, "labels": {"user": "ada"}, **(metadata or {})},
        tasks={"worker": list(tasks)},
        attempt=attempt,
        restarts=restarts,
        of_attempt=own,
        ledger={"since": stamp(ledger[1]), "state": ledger[0], "total": {"running": 5.0}, "attempt": {}},
    )
    return FRAMEWORK_DECODER.decode(msgspec.json.encode(found.to_dict() | more))


class Store:
    """What a database would hold: rows by their keys, in which columns that are named are changed."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[tuple[Any, ...], dict[str, Any]]] = {table: {} for table in KEYS}

    def apply(self, found: Changes) -> None:
        for table, keys in KEYS.items():
            rows = getattr(found, table)
            assert len({tuple(row[key] for key in keys) for row in rows}) == len(rows), f"{table}: one row twice"
            for row in rows:
                self.rows[table].setdefault(tuple(row[key] for key in keys), {}).update(row)

    def known(self, at_work: float) -> Known:
        attempt = max((key[0] for key in self.rows["attempts"]), default=-1)
        runs: dict[tuple[str, int], tuple[int, bool]] = {}
        for (number, role, index, run), row in sorted(self.rows["runs"].items()):
            if number == attempt:
                runs[role, index] = run, row.get("ended") is not None
        spans = [(row["state"], row["began"]) for row in self.rows["spans"].values() if row["ended"] is None]
        return Known(
            attempt=attempt,
            is_open=attempt >= 0 and not self.rows["attempts"][attempt,].get("gap"),
            epoch=max((key[1] for key in self.rows["epochs"] if key[0] == attempt), default=-1),
            generation=max((key[0] for key in self.rows["specs"]), default=-1),
            runs=runs,
            span=max(spans, key=lambda span: span[1], default=None),
            seen=at_work,
        )


def look(state: Framework, before: Known = NOTHING, now: int = 100, *, is_gone: bool = False) -> tuple[Changes, Known]:
    return records.changes(state, before, seconds(now), person_label="user", is_gone=is_gone)


def test_a_state_becomes_rows() -> None:
    found, _ = look(framework(task(0, 0), task(1, 2, ended=True, code=7), attempt=1, version=5))
    assert found.framework is not None
    row = [found.framework[key] for key in ("uid", "namespace", "name", "person", "version", "state")]
    assert row == ["uid-1", "lab", "fw", "ada", "5", "AttemptRunning"]
    assert (found.framework["attempts"], found.framework["tasks"], found.framework["gpus"]) == (2, 2, 8)
    assert (found.framework["created"], found.framework["running"], found.framework["code"]) == (seconds(0), 5.0, None)
    assert found.labels == {"user": "ada"}
    small = msgspec.json.decode(found.framework["document"])
    assert "managedFields" not in small["metadata"]
    assert "taskRoleStatuses" not in small["status"]["attemptStatus"]
    whole = msgspec.json.decode(found.whole or b"")
    assert len(whole["status"]["attemptStatus"]["taskRoleStatuses"][0]["taskStatuses"]) == 2
    ended = next(one for one in found.runs if one["index"] == 1 and one["run"] == 2)
    assert (ended["code"], ended["pod_uid"], ended["node"], ended["ended"]) == (7, "pod-1-2", "node-1", seconds(3))
    assert {one["run"]: one["gap"] for one in found.runs if "gap" in one} == dict.fromkeys((0, 1), records.UNSEEN)
    assert [(one["attempt"], "gap" in one) for one in found.attempts] == [(0, True), (1, False)]


def test_only_what_has_changed_is_written_again() -> None:
    first, then = look(framework(task(0, 0), task(1, 0)))
    assert len(first.runs) == 2
    assert len(first.specs) == 1
    second, _ = look(framework(task(0, 0), task(1, 0, ended=True), version=2), then)
    assert [one["index"] for one in second.runs] == [1]
    assert (second.specs, second.spans) == ([], [])


@pytest.mark.parametrize("status", [{"state": 5}, None])
def test_what_cannot_be_read_is_kept_and_said(status: Any) -> None:
    found, _ = look(framework(task(0, 0), status=status))
    assert found.framework is not None
    assert (found.framework["state"], bool(found.framework["gap"])) == ("", status is not None)
    assert found.whole is not None


def test_the_end_of_a_run_that_nobody_saw_is_a_gap() -> None:
    _, then = look(framework(task(0, 0), task(1, 0)))
    found, _ = look(framework(task(0, 3), task(1, 0), version=2), then)
    gaps = {one["run"]: one.get("gap") for one in found.runs}
    assert gaps == {0: records.NO_END, 1: records.UNSEEN, 2: records.UNSEEN, 3: None}
    found, _ = look(framework(task(0, 0), attempt=2, version=3), then)
    assert {one["index"] for one in found.runs if one["attempt"] == 0 and one["gap"] == records.NO_END} == {0, 1}
    gaps = {one["attempt"]: one.get("gap") for one in found.attempts}
    assert gaps == {0: records.NO_END, 1: records.UNSEEN, 2: None}


def test_what_is_known_stays_known_while_a_status_cannot_be_read() -> None:
    _, then = look(framework(task(0, 2), task(1, 0)))
    _, then = look(framework(task(0, 2), status={"state": 5}, version=2), then)
    found, _ = look(framework(task(0, 2), task(1, 0, ended=True), version=3), then)
    assert [(one["index"], one["run"], one.get("gap")) for one in found.runs] == [(1, 0, None)]


def test_what_was_not_over_when_its_framework_went_has_no_end() -> None:
    running = framework(task(0, 0), task(1, 0, ended=True))
    _, then = look(running)
    found, _ = look(running, then, is_gone=True)
    assert [(one["index"], one["gap"]) for one in found.runs] == [(0, records.NO_END)]
    assert [(one["attempt"], one["gap"]) for one in found.attempts] == [(0, records.NO_END)]


def test_the_deletion_ends_what_the_time_goes_to() -> None:
    _, then = look(framework(task(0, 0), ledger=("running", 10)))
    found, after = look(
        framework(task(0, 0), metadata={"deletionTimestamp": stamp(9)}, ledger=("ending", 20)), then, 30, is_gone=True
    )
    assert [(one["state"], one["began"], one["ended"]) for one in found.spans] == [
        ("running", seconds(10), seconds(20)),
        ("ending", seconds(20), seconds(30)),
    ]
    assert found.framework is not None
    assert found.framework["deleted"] == seconds(9)
    assert after.is_over


def test_what_came_while_the_archive_was_away_is_no_part_of_the_last_span() -> None:
    known = Known(attempt=0, generation=1, span=("running", seconds(10)), seen=seconds(50))
    found, _ = look(framework(task(0, 0), ledger=("gate", 80)), known, 100)
    assert [(one["state"], one["ended"]) for one in found.spans] == [("running", seconds(50)), ("gate", None)]


@pytest.mark.parametrize("gpus", ["9" * 30, "-7", "x", "9" * 5000])
def test_no_number_of_gpus_keeps_a_framework_out(gpus: str) -> None:
    found, _ = look(framework(task(0, 0), gpus=gpus))
    assert found.framework is not None
    assert found.framework["gpus"] == (2**31 - 1 if gpus == "9" * 30 else 0)


def test_of_very_many_labels_the_first_are_kept_and_the_person() -> None:
    labels = {f"{number:05}": "" for number in reversed(range(20_000))} | {"user": "ada"}
    found, _ = look(framework(task(0, 0), metadata={"labels": labels}))
    assert found.labels == {f"{number:05}": "" for number in range(records.LABELS)}
    assert found.framework is not None
    assert found.framework["person"] == "ada"


def test_a_pretended_number_makes_no_flood_of_rows() -> None:
    found, _ = look(framework(task(0, 10**9), attempt=10**9, epochs=(10**9,)))
    assert max(len(found.attempts), len(found.runs), len(found.epochs)) <= records.MAX_GAPS + 1


@given(
    st.lists(st.sampled_from(["run", "attempt", "end", "epoch", "span", "miss", "restart"]), min_size=1, max_size=40),
    st.integers(0, 2**32),
)
def test_whatever_is_missed_each_attempt_run_and_epoch_has_a_row(steps: list[str], seed: int) -> None:
    store, before = Store(), NOTHING
    attempt = run = epoch = 0
    state, since, ended, sees = "scheduling", 0, False, True
    seen: set[tuple[str, int, int]] = set()
    for now, step in enumerate((*steps, "see"), 1):
        sees = step != "miss" and (sees or step in {"restart", "see"})
        match step:
            case "run":
                run, ended = run + 1, False
            case "attempt":
                attempt, run, epoch, ended = attempt + 1, 0, 0, False
            case "end":
                ended = True
            case "epoch":
                epoch += 1
            case "span":
                state, since = ("running" if state == "scheduling" else "scheduling"), now
            case "restart":
                before = store.known(seconds(now))
        if sees:
            epochs = tuple(range(max(1, epoch - 2), epoch + 1))
            shown = framework(
                task(0, run, ended=ended), version=now, attempt=attempt, epochs=epochs, ledger=(state, since)
            )
            found, before = look(shown, before, now)
            store.apply(found)
            seen |= {("attempt", attempt, 0), ("run", attempt, run)} | {("epoch", attempt, one) for one in epochs}
    assert sorted(store.rows["attempts"]) == [(one,) for one in range(attempt + 1)]
    for number in range(attempt + 1):
        row = store.rows["attempts"][number,]
        assert ("started" in row) == (("attempt", number, 0) in seen)
        assert bool(row.get("gap")) == (number < attempt)
    runs = {key[3]: row for key, row in store.rows["runs"].items() if key[0] == attempt}
    assert sorted(runs) == list(range(run + 1))
    for number, row in runs.items():
        assert ("state" in row) == (("run", attempt, number) in seen)
        assert number == run or row.get("gap") or row["ended"] is not None
    epochs_seen = {key[1]: row for key, row in store.rows["epochs"].items() if key[0] == attempt}
    assert sorted(epochs_seen) == list(range(1, epoch + 1))
    spans = sorted(store.rows["spans"].values(), key=lambda row: row["began"])
    for one, following in itertools.pairwise(spans):
        assert one["ended"] is not None
        assert one["began"] <= one["ended"] <= following["began"]
    assert spans[-1]["ended"] is None
