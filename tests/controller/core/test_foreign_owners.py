"""What owners of gangs of other controllers say of their size, and each field by which one can never be complete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from frameworkcontroller.core.foreign.owners import Size, size_of
from frameworkcontroller.core.foreign.pods import Place
from tests.support.foreign_pods import jobset, owner, replicated_job

if TYPE_CHECKING:
    from collections.abc import Sequence


def size(kind: str, document: dict[str, Any], roles: Sequence[str] = ("worker",), sizes: Sequence[str] = ("",)) -> Size:
    return size_of(kind, msgspec.json.encode(document), roles, sizes)


def numbers(found: Size) -> dict[str, int]:
    return {name: role.number for name, role in found.roles.items()}


def test_a_jobset_has_replicas_times_the_pods_of_a_job_in_the_order_of_its_replicated_jobs() -> None:
    found = size("JobSet", jobset([replicated_job("ps", 1, 1), replicated_job("worker", 2, 3)]))
    assert numbers(found) == {"ps": 1, "worker": 6}
    assert list(found.roles) == ["ps", "worker"]
    assert [found.roles["worker"].index(Place("worker", *at)) for at in ((0, 0), (0, 2), (1, 0), (1, 2))] == [
        0,
        2,
        3,
        5,
    ]
    assert [found.roles["worker"].index(Place("worker", *at)) for at in ((2, 0), (0, 3))] == [None, None]
    assert (found.total, found.never, found.uid) == (7, "", "uid-of-train")


def test_replicated_jobs_without_the_label_are_no_part_of_the_gang_unless_their_pods_have_it() -> None:
    jobs = [replicated_job("init", 1, 1, opted_in=False), replicated_job("worker", 1, 2, dependsOn=[{"name": "init"}])]
    assert numbers(size("JobSet", jobset(jobs))) == {"worker": 2}
    jobs[1] = replicated_job("worker", 1, 2)
    assert numbers(size("JobSet", jobset(jobs), roles=("init", "worker"))) == {"init": 1, "worker": 2}


def test_the_coordinator_of_a_jobset_is_the_first_of_the_first_role() -> None:
    where = {"replicatedJob": "worker", "jobIndex": 1, "podIndex": 2}
    found = size("JobSet", jobset([replicated_job("ps", 1, 1), replicated_job("worker", 2, 3)], coordinator=where))
    assert (list(found.roles), found.first) == (["worker", "ps"], "worker-5")


def test_a_job_has_as_many_pods_as_run_at_once() -> None:
    assert numbers(size("Job", owner({"parallelism": 3, "completions": 3}), ("trainer",))) == {"trainer": 3}
    assert numbers(size("Job", owner({"parallelism": 5, "completions": 3}))) == {"worker": 3}
    assert numbers(size("Job", owner({"completions": 1}))) == {"worker": 1}


def test_a_stateful_set_has_replicas_from_its_first_ordinal_on() -> None:
    spec = {"replicas": 3, "podManagementPolicy": "Parallel", "ordinals": {"start": 5}}
    found = size("StatefulSet", owner(spec))
    assert numbers(found) == {"worker": 3}
    assert [found.roles["worker"].index(Place("worker", 0, at)) for at in (4, 5, 7, 8)] == [None, 0, 2, None]
    assert size("StatefulSet", owner({"replicas": 1})).never == ""


@pytest.mark.parametrize(
    ("kind", "text", "roles", "expected"),
    [
        ("LeaderWorkerSet", "3", ["worker"], {"worker": 3}),
        ("LeaderWorkerSet", "3", ["server"], {"server": 3}),
        ("Pod", "4", ["trainer"], {"trainer": 4}),
        ("Pod", "ps=1, worker=3", ["worker"], {"ps": 1, "worker": 3}),
    ],
)
def test_some_pods_say_the_size_themselves(kind: str, text: str, roles: list[str], expected: dict[str, int]) -> None:
    assert numbers(size(kind, owner({}), roles, [text])) == expected


TWO = [replicated_job("ps", 1, 1), replicated_job("worker", 1, 2)]
IN_ORDER = {"startupPolicyOrder": "InOrder"}
NEVER = [
    ("Job", owner({"parallelism": 2, "completions": 4}), "spec.parallelism is 2 and spec.completions 4"),
    ("StatefulSet", owner({"replicas": 2}), "spec.podManagementPolicy is OrderedReady"),
    ("StatefulSet", owner({"replicas": 2, "podManagementPolicy": "OrderedReady"}), "set Parallel"),
    ("LeaderWorkerSet", owner({"startupPolicy": "LeaderReady"}), "spec.startupPolicy is LeaderReady"),
    ("JobSet", jobset(TWO, startupPolicy=IN_ORDER), "spec.startupPolicy.startupPolicyOrder is InOrder"),
    (
        "JobSet",
        jobset([TWO[0], replicated_job("worker", 1, 2, dependsOn=[{"name": "ps", "status": "Ready"}])]),
        "spec.replicatedJobs[worker].dependsOn names ps",
    ),
    (
        "JobSet",
        jobset([replicated_job("worker", 2, 2, completions=4)]),
        "spec.replicatedJobs[worker].template.spec.parallelism is 2",
    ),
    ("JobSet", jobset([replicated_job("worker", 101, 100)]), "it has 10100 Pods in 1 roles, and 10000"),
    ("Pod", owner({}), "annotation barrier.frameworkcontroller.microsoft.com/gang-size is '3.5'"),
]


@pytest.mark.parametrize(("kind", "document", "why"), NEVER)
def test_what_can_never_be_complete_names_the_field_and_has_no_roles(
    kind: str, document: dict[str, Any], why: str
) -> None:
    found = size(kind, document, sizes=["3.5" if kind == "Pod" else "2"])
    assert why in found.never
    assert not found.roles


@pytest.mark.parametrize(
    ("kind", "document"),
    [
        ("JobSet", jobset([replicated_job("worker", 1, 2)], startupPolicy=IN_ORDER)),
        ("JobSet", jobset([TWO[0] | {"replicas": 0}, TWO[1]], startupPolicy=IN_ORDER)),
        ("LeaderWorkerSet", owner({"startupPolicy": "LeaderCreated"})),
        ("JobSet", jobset([replicated_job("worker", 100, 100)])),
        ("JobSet", jobset([TWO[0], replicated_job("worker", 2_147_483_647, 0)])),
    ],
)
def test_what_is_next_to_that_can_be_and_has_no_more_jobs_than_pods(kind: str, document: dict[str, Any]) -> None:
    found = size(kind, document, sizes=["2"])
    assert found.never == ""
    assert all(role.jobs <= role.number for role in found.roles.values())


def test_pods_that_disagree_are_told_and_so_is_a_role_without_a_number() -> None:
    assert (
        "its Pods disagree in annotation leaderworkerset.sigs.k8s.io/size: '2' and '3'"
        in size("LeaderWorkerSet", owner({}), sizes=["3", "2"]).never
    )
    assert "a Pod has the role ps" in size("Pod", owner({}), ("ps", "worker"), ["worker=3"]).never


@pytest.mark.parametrize("text", ["", "-1", "٣", "1e3", "worker=", "=3", "worker=x", "worker=3,", "999999"])
def test_no_other_text_is_a_number_of_pods(text: str) -> None:
    assert size("Pod", owner({}), sizes=[text]).never != ""
