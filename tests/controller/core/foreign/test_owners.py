"""What owners of gangs of other controllers say of their size, and each field by which one can never be complete."""

from typing import Any

import msgspec
import pytest

from frameworkcontroller.core.foreign.owners import Size, size_of
from frameworkcontroller.core.foreign.pods import Place
from tests.support.beside.foreign_pods import Json, jobset, owner, replicated_job


def size(kind: str, document: Json, roles: str = "worker", *sizes: str) -> Size:
    return size_of(kind, msgspec.json.encode(document), roles.split(), sizes or ("",))


def job(number: int, completions: int) -> Json:
    return owner({"parallelism": number, "completions": completions})


def ordered(*jobs: Json) -> Json:
    return jobset([*jobs], startupPolicy={"startupPolicyOrder": "InOrder"})


PS, WORKERS, TWO = replicated_job("ps", 1, 1), replicated_job("worker", 2, 3), replicated_job("worker", 1, 2)
INIT, AFTER = replicated_job("init", 1, 1, opted_in=False), TWO | {"dependsOn": [{"name": "init"}]}
READY, FEW = TWO | {"dependsOn": [{"name": "ps", "status": "Ready"}]}, replicated_job("worker", 2, 2, completions=4)
LAST = {"replicatedJob": "worker", "jobIndex": 1, "podIndex": 2}
SET = {"replicas": 3, "podManagementPolicy": "Parallel"}
# Kind and document of the owner, the roles and the size that Pods name; the Pods of each role in order.
SIZES: dict[str, tuple[str, Json, str, str, str]] = {
    "replicas times the Pods of a Job": ("JobSet", jobset([PS, WORKERS]), "", "", "ps=1 worker=6"),
    "a coordinator": ("JobSet", jobset([PS, WORKERS], coordinator=LAST), "", "", "worker=6 ps=1 first=worker-5"),
    "a role without the label": ("JobSet", jobset([INIT, AFTER]), "worker", "", "worker=2"),
    "a role whose Pods have the label": ("JobSet", jobset([INIT, TWO]), "init worker", "", "init=1 worker=2"),
    "one role in order": ("JobSet", ordered(TWO), "", "", "worker=2"),
    "no Pod of the first in order": ("JobSet", ordered(PS | {"replicas": 0}, TWO), "", "", "ps=0 worker=2"),
    "10,000 Pods": ("JobSet", jobset([replicated_job("worker", 100, 100)]), "", "", "worker=10000"),
    "Jobs without Pods": ("JobSet", jobset([PS, replicated_job("x", 2_147_483_647, 0)]), "", "", "ps=1 x=0"),
    "as many as run at once": ("Job", job(3, 3), "trainer", "", "trainer=3"),
    "no more than are to succeed": ("Job", job(5, 3), "worker", "", "worker=3"),
    "one, if it does not say": ("Job", owner({"completions": 1}), "worker", "", "worker=1"),
    "replicas of a StatefulSet": ("StatefulSet", owner(SET), "worker", "", "worker=3"),
    "one replica in any order": ("StatefulSet", owner({"replicas": 1}), "worker", "", "worker=1"),
    "its Pods say it": ("LeaderWorkerSet", owner({}), "server", "3", "server=3"),
    "the leader need not be Ready": ("LeaderWorkerSet", owner({"startupPolicy": "LeaderCreated"}), "a", "2", "a=2"),
    "bare Pods say it": ("Pod", owner({}), "trainer", "4", "trainer=4"),
    "bare Pods say it of each role": ("Pod", owner({}), "worker", "ps=1, worker=3", "ps=1 worker=3"),
}


@pytest.mark.parametrize(("kind", "document", "roles", "text", "expected"), SIZES.values(), ids=SIZES)
def test_a_gang_has_as_many_pods_as_its_owner_says_or_they_themselves(
    kind: str, document: Json, roles: str, text: str, expected: str
) -> None:
    found = size(kind, document, roles, text)
    first = {"first": found.first} if found.first else {}
    numbers: dict[str, Any] = {name: role.number for name, role in found.roles.items()}
    assert " ".join(f"{name}={value}" for name, value in (numbers | first).items()) == expected
    assert (found.total, found.never, found.uid) == (sum(numbers.values()), "", "uid-of-train")
    assert all(role.jobs <= role.number for role in found.roles.values()), "it has more Jobs than Pods"


JOBS = {(0, 0): 0, (0, 2): 2, (1, 0): 3, (1, 2): 5, (2, 0): None, (0, 3): None}
ORDINALS = {(0, 4): None, (0, 5): 0, (0, 7): 2, (0, 8): None}


@pytest.mark.parametrize(
    ("found", "indexes"),
    [
        (size("JobSet", jobset([WORKERS])), JOBS),
        (size("StatefulSet", owner(SET | {"ordinals": {"start": 5}})), ORDINALS),
    ],
    ids=["JobSet", "StatefulSet"],
)
def test_places_are_numbered_through(found: Size, indexes: dict[tuple[int, int], int | None]) -> None:
    assert {place: found.roles["worker"].index(Place("worker", *place)) for place in indexes} == indexes


NEVER: list[tuple[tuple[Any, ...], str]] = [
    (("Job", job(2, 4)), "spec.parallelism is 2 and spec.completions 4"),
    (("StatefulSet", owner({"replicas": 2})), "spec.podManagementPolicy is OrderedReady"),
    (("StatefulSet", owner(SET | {"podManagementPolicy": "OrderedReady"})), "set Parallel"),
    (("LeaderWorkerSet", owner({"startupPolicy": "LeaderReady"}), "x", "2"), "spec.startupPolicy is LeaderReady"),
    (
        ("LeaderWorkerSet", owner({}), "worker", "3", "2"),
        "its Pods disagree in annotation leaderworkerset.sigs.k8s.io/size: '2' and '3'",
    ),
    (("JobSet", ordered(PS, TWO)), "spec.startupPolicy.startupPolicyOrder is InOrder"),
    (("JobSet", jobset([PS, READY])), "spec.replicatedJobs[worker].dependsOn names ps"),
    (("JobSet", jobset([FEW])), "spec.replicatedJobs[worker].template.spec.parallelism is 2"),
    (("JobSet", jobset([replicated_job("worker", 101, 100)])), "it has 10100 Pods in 1 roles, and 10000"),
    (("Pod", owner({}), "ps worker", "worker=3"), "a Pod has the role ps"),
    *(
        (
            ("Pod", owner({}), "worker", text),
            f"annotation barrier.frameworkcontroller.microsoft.com/gang-size is {text!r}",
        )
        for text in ("3.5", "", "-1", "٣", "1e3", "worker=", "=3", "worker=x", "worker=3,", "999999")
    ),
]


@pytest.mark.parametrize(("said", "why"), NEVER, ids=[why for _, why in NEVER])
def test_what_can_never_be_complete_names_the_field_and_has_no_roles(said: tuple[Any, ...], why: str) -> None:
    found = size(*said)
    assert why in found.never
    assert not found.roles
