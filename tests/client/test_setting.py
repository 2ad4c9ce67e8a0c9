"""`--set path=value`, durations, and numbers of Tasks: what people type after flags."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from frameworkclient.cli.commands.writing import numbers_of
from frameworkclient.errors import ArgumentError
from frameworkclient.model.set_field import set_field
from frameworkclient.views.text import duration, seconds_of

MANIFEST = {
    "kind": "Framework",
    "metadata": {"name": "training"},
    "spec": {"taskRoles": [{"name": "chief", "taskNumber": 1}, {"name": "worker", "taskNumber": 2}]},
}


@pytest.mark.parametrize(
    ("assignment", "path", "value"),
    [
        ("spec.taskRoles[worker].taskNumber=8", ("spec", "taskRoles", 1, "taskNumber"), 8),
        ("taskRoles[0].taskNumber=8", ("spec", "taskRoles", 0, "taskNumber"), 8),
        ("metadata.name=other", ("metadata", "name"), "other"),
        ('metadata.labels["example.org/team"]=vision', ("metadata", "labels", "example.org/team"), "vision"),
        ("retryPolicy.fancyRetryPolicy=true", ("spec", "retryPolicy", "fancyRetryPolicy"), True),
        ("description=a=b", ("spec", "description"), "a=b"),
        ("ttlSecondsAfterFinished=null", ("spec", "ttlSecondsAfterFinished"), None),
    ],
    ids=["by name", "by index", "metadata", "quoted key", "made on the way", "equals in the value", "null"],
)
def test_a_field_is_set_by_its_path(assignment: str, path: tuple[Any, ...], value: Any) -> None:
    found: Any = copy.deepcopy(MANIFEST)
    set_field(found, assignment)
    for key in path:
        found = found[key]
    assert found == value


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("taskNumber", "must be PATH=VALUE"),
        ("=4", "must be PATH=VALUE"),
        ("taskRoles[ps].taskNumber=1", "there is no entry ps; there are chief, worker"),
        ("taskRoles[7].taskNumber=1", "there is no entry 7"),
        ("metadata.name.first=1", "is a value and has no fields"),
        ("description={", "the value is not valid YAML"),
    ],
    ids=["no value", "no path", "unknown name", "unknown index", "no object", "yaml"],
)
def test_an_assignment_that_cannot_be_done_is_refused(assignment: str, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        set_field(copy.deepcopy(MANIFEST), assignment)


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("45s", 45), ("10m", 600), ("1h30m", 5400), ("2d", 172_800)])
def test_durations_are_read(text: str, seconds: int) -> None:
    assert seconds_of(text, "--since") == seconds


@pytest.mark.parametrize("text", ["", "abc", "10x", "-5", "1.5h", "m"])
def test_what_is_no_duration_names_the_flag(text: str) -> None:
    with pytest.raises(ArgumentError, match=r"--since .*: must be a duration, like 45s"):
        seconds_of(text, "--since")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-3, "0s"),
        (41, "41s"),
        (119, "119s"),
        (312, "5m12s"),
        (300, "5m"),
        (3600, "60m"),
        (12_000, "3h20m"),
        (200_000, "2d7h"),
        (1e6, "11d"),
    ],
)
def test_ages_are_written_as_kubectl_writes_them(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_numbers_of_tasks_are_read_by_role() -> None:
    assert numbers_of(["worker=4", "ps=0"]) == {"worker": 4, "ps": 0}
    for broken in ("worker", "worker=", "=4", "worker=four", "worker=-1"):
        with pytest.raises(ArgumentError, match="must be ROLE=NUMBER, like worker=4"):
            numbers_of([broken])
