"""The kinds are within the limits that their names claim, and the verdict is right."""

import functools
import itertools
import json
from unittest.mock import Mock

import pytest

from frameworkcontroller.api import names
from frameworkcontroller.api.spec import MAX_DEPENDENCIES, MAX_EDGES, MAX_ROLES, MAX_TASKS
from frameworkcontroller.core.pods.facts import MAX_CONTAINERS_OF_FRAMEWORK
from frameworkcontroller.core.pods.template import MAX_CONTAINERS_OF_POD
from localcluster.client import Json
from testkit.frameworks import Frameworks
from tests.hostile.gauge import Counts
from tests.hostile.kinds import KINDS, Kind
from tests.hostile.plain import pod_of
from tests.hostile.run import COLUMNS, GANGS, START_SECONDS, Round, faults_of, line_of

ETCD_BYTES = 1.5 * 1024 * 1024
BY_NAME = {kind.name: kind for kind in KINDS}
KIND = pytest.mark.parametrize("kind", KINDS, ids=BY_NAME)


@functools.cache
def manifests(kind: Kind) -> list[Json]:
    return kind.frameworks("hostile")


def largest(kind: Kind) -> list[int]:
    """Return the most roles, containers of a template, containers and edges of one Framework."""
    found = [(0, 0, 0, 0)]
    for manifest in manifests(kind):
        roles = manifest["spec"]["taskRoles"]
        containers = [len(role["task"]["pod"]["spec"]["containers"]) for role in roles]
        edges = sum(len(role.get("dependsOn", ())) for role in roles)
        found.append((len(roles), max(containers), sum(containers), edges))
    return [max(column) for column in zip(*found, strict=True)]


@KIND
def test_the_api_server_takes_the_manifests(kind: Kind) -> None:
    assert len({manifest["metadata"]["name"] for manifest in manifests(kind)}) == len(manifests(kind))
    for manifest in manifests(kind):
        roles = manifest["spec"]["taskRoles"]
        assert len({role["name"] for role in roles}) == len(roles)
        assert len(json.dumps(manifest)) < ETCD_BYTES
        assert sum(role["taskNumber"] for role in roles) <= MAX_TASKS
        assert max(len(role.get("dependsOn", ())) for role in roles) <= MAX_DEPENDENCIES


@pytest.mark.parametrize(
    ("part", "most"),
    [
        ("of 256 empty containers", {1: MAX_CONTAINERS_OF_POD, 2: 9984}),
        ("of 257 containers", {1: MAX_CONTAINERS_OF_POD + 1, 2: MAX_CONTAINERS_OF_FRAMEWORK + 240}),
        ("1,000 roles that wait", {0: MAX_ROLES, 3: MAX_EDGES}),
        ("10,001 edges", {3: MAX_EDGES + 1}),
    ],
)
def test_a_kind_is_at_its_limit_or_one_above(part: str, most: dict[int, int]) -> None:
    (kind,) = (kind for kind in KINDS if part in kind.name)
    assert dict(enumerate(largest(kind))).items() >= most.items()


@KIND
def test_other_kinds_are_within_the_limits(kind: Kind) -> None:
    limits = (MAX_ROLES, MAX_CONTAINERS_OF_POD, MAX_CONTAINERS_OF_FRAMEWORK, MAX_EDGES)
    is_above = any(most > limit for most, limit in zip(largest(kind), limits, strict=True))
    assert is_above == ("257" in kind.name or "10,001" in kind.name)


@KIND
def test_the_plain_client_makes_the_pods_of_tasks_that_begin(kind: Kind) -> None:
    for pods in kind.pods[:3]:
        pod = json.loads(pod_of(pods["template"], f"{pods['prefix']}-7", 7))
        assert not {names.FRAMEWORK_NAME, names.RETAINED_LABEL} & set(pod["metadata"].get("labels", {}))
        assert f"{{{{{names.TASK_INDEX}}}}}" not in json.dumps(pod)


@pytest.mark.parametrize(
    ("part", "pods"),
    [
        ("of 256 empty containers", 24 * 39),
        ("of 257 containers", 12 * 40),
        ("1,000 roles that wait", 4 + 3 + 3 * 10),
        ("2,000 Tasks of 200 KB", 2000),
        ("not started", 0),
        ("400 of two", 800),
        ("every two seconds", 10),
        ("restarts in place", 100),
    ],
)
def test_the_plain_client_makes_so_many_pods(part: str, pods: int) -> None:
    (kind,) = (kind for kind in KINDS if part in kind.name)
    assert sum(group["scales"][0] for group in kind.pods) == pods


@KIND
def test_edits_are_of_what_was_applied(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    edited = set[str]()
    monkeypatch.setattr(Frameworks, "merge", lambda _, name, **__: edited.add(name))
    if manifests(kind):
        raw = Mock()
        steps = list(itertools.islice(kind.edits(Frameworks(raw, "hostile")), 11))
        deleted = (call.args[0].rpartition("/")[2] for call in raw.delete.call_args_list)
        edited |= {name.removesuffix(names.config_map_name("")) for name in deleted}
        assert edited <= {manifest["metadata"]["name"] for manifest in manifests(kind)}
        assert bool(edited) == bool(steps)


def starts(*seconds: float) -> list[float]:
    """As many as have to be compared."""
    return list(seconds) * (GANGS // len(seconds))


PLAIN = Round(starts(1.0, 2.0, 3.0), rates=Counts(creations=100))


@pytest.mark.parametrize(
    ("hostile", "found"),
    [
        (Round(starts(1.0, 2.0, 3.0)), []),
        (Round(starts(1.5, 3.0, 4.5), peak_mib=299), []),
        (Round(starts(3.01, 3.01, 3.01)), ["the median start of a gang takes 3.01 s, beside a plain client 2.00 s"]),
        (Round(starts(1.0, 2.0, 4.6)), ["the longest start of a gang takes 4.60 s, beside a plain client 3.00 s"]),
        (Round(starts(1.0, 2.0, 3.0), peak_mib=300), ["RSS of 300 MiB, less than 300 is allowed"]),
        (Round(starts(1.0, 2.0, 3.0), faults=("the process has ended",)), ["the process has ended"]),
        (Round([3.01, 4.6]), []),
    ],
    ids=["same", "just allowed", "median", "longest", "memory", "fault", "few"],
)
def test_the_verdict(hostile: Round, found: list[str]) -> None:
    assert faults_of(hostile, PLAIN) == found


def test_a_gang_that_does_not_run_counts_as_the_longest() -> None:
    late = Round([1.0, 2.0], late=1)
    assert (late.median, late.most) == (2.0, START_SECONDS)
    assert faults_of(late, PLAIN)[-1] == "1 gangs do not run in 60 s, beside a plain client 0"
    assert faults_of(PLAIN, Round(starts(1.0, 2.0, 3.0), faults=("no lease",))) == ["beside the plain client: no lease"]


def test_each_column_has_a_cell() -> None:
    line = line_of("kind", Round(starts(1.5, 3.0, 4.5)), PLAIN)
    assert line == "| kind | 3.00, 4.50 | 2.00, 3.00 | 1.50 | 0.00 | 0 | 0 | 0 | 0 | 100 | 0 | 0 |"
    assert line.count("|") == COLUMNS.count("|") + 2
