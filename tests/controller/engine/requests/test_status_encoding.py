"""How a status becomes small enough, and is known again when it is read."""

import ipaddress
import random
import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from frameworkcontroller.api.codes import FAILED
from frameworkcontroller.api.states import State
from frameworkcontroller.api.status import (
    STATUS_DECODER,
    ContainerEnd,
    FrameworkStatus,
    PodEnd,
    RetryPolicyStatus,
    TaskAttemptStatus,
    TaskCompletion,
    TaskRoleStatus,
    TaskStatus,
)
from frameworkcontroller.api.stored_roles import MAX_ROLES_BYTES, is_same, roles_of
from frameworkcontroller.core.policies.role import RoleState
from frameworkcontroller.core.status.rescale import rescale
from frameworkcontroller.engine.requests.status_encoding import COMPRESS_FROM_BYTES, LIMIT_BYTES, compress, is_small
from tests.controller.core.values import START, at, framework, role, spec

SPEC_BYTES = 16 * 1024
ETCD_BYTES = 1536 * 1024
NODES = {
    "short": "node-{0}",
    "aws by address": "ip-10-{1}-{2}-{3}.us-west-2.compute.internal",
    "aws by instance": "i-0{4:016x}.ap-southeast-2.compute.internal",
    "aks": "aks-gpunodepool{1}-{5:08d}-vmss{6:06x}",
}


@dataclass(frozen=True)
class Shape:
    """What the Tasks of a large Framework are like; `nodes` is a key of `NODES`."""

    nodes: str = "aws by instance"
    is_ipv6: bool = True
    retries: int = 2
    failures: int = 10
    """Every so many Tasks has failed, 0 for none."""
    text: int = 4096
    """Characters of what a failed container says, which is as good as random."""
    containers: int = 1
    roles: int = 1


def large(shape: Shape, tasks: int = 10_000, seed: int = 7) -> FrameworkStatus:
    """Return the status of a Framework in which every Task has had a Pod; its UIDs are made by the controller."""
    rng = random.Random(seed)
    roles = dict[str, RoleState]()
    wanted = spec(*(role(f"worker{number}", tasks // shape.roles) for number in range(shape.roles)))

    def new_uid() -> str:
        return str(uuid.UUID(int=rng.getrandbits(128), version=4))

    list(rescale("a-framework-of-some-name", wanted, roles, now=START, new_uid=new_uid, revision=1, persisted=0))
    filled = [one.snapshot() for one in roles.values()]
    return with_roles(
        *(
            replace(one, task_statuses=tuple(seen(task, shape, rng, new_uid()) for task in one.task_statuses))
            for one in filled
        )
    )


def seen(task: TaskStatus, shape: Shape, rng: random.Random, pod_uid: str) -> TaskStatus:
    """Return the Task as it is after its last attempt has begun, or ended."""

    def moment() -> datetime:
        return START + timedelta(seconds=rng.randrange(600))

    def address() -> str:
        if shape.is_ipv6:
            return str(ipaddress.IPv6Address((0x2600_1F14_0ABC_0D00 << 64) | rng.getrandbits(64)))
        return str(ipaddress.IPv4Address((10 << 24) | rng.getrandbits(24)))

    numbers = *(rng.randrange(256) for _ in range(3)), rng.getrandbits(64), rng.randrange(10**8), rng.getrandbits(20)
    end = failure(shape, rng) if shape.failures and task.index % shape.failures == 0 else None
    attempt = TaskAttemptStatus(
        id=shape.retries,
        start_time=moment(),
        pod_name=task.attempt_status.pod_name,
        run_time=moment(),
        completion_time=moment() if end else None,
        instance_uid=f"{shape.retries}_{pod_uid}",
        pod_uid=pod_uid,
        pod_node_name=NODES[shape.nodes].format(task.index, *numbers),
        pod_ip=address(),
        pod_host_ip=address(),
        completion_status=end,
    )
    return replace(
        task,
        state=State.COMPLETED if end else State.RUNNING,
        start_time=moment(),
        transition_time=moment(),
        run_time=moment(),
        completion_time=moment() if end else None,
        retry_policy_status=RetryPolicyStatus(shape.retries, shape.retries),
        attempt_status=attempt,
    )


def failure(shape: Shape, rng: random.Random) -> TaskCompletion:
    letters, each = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 ./:", shape.text // shape.containers
    said = ["".join(rng.choices(letters, k=each)) for _ in range(shape.containers)]
    ends = tuple(
        ContainerEnd(name=f"main{number}", reason="Error", message=text, code=1) for number, text in enumerate(said)
    )
    diagnostics = f"Pod failed: PodPattern unmatched: {''.join(said)}"
    return TaskCompletion(1, "ContainerUnrecognizedFailed", FAILED, diagnostics, PodEnd(containers=ends))


def with_roles(*roles: TaskRoleStatus) -> FrameworkStatus:
    plain = framework(State.RUNNING)
    return replace(plain, attempt_status=replace(plain.attempt_status, task_role_statuses=roles))


LARGE = {
    "short names": Shape("short", is_ipv6=False, failures=0),
    "aws by address": Shape("aws by address"),
    "aws by instance": Shape("aws by instance"),
    "aks": Shape("aks"),
    "all have failed with much to say": Shape(failures=1, text=600, containers=3),
    "many roles": Shape(roles=100),
}


@pytest.mark.parametrize("shape", LARGE.values(), ids=LARGE)
def test_ten_thousand_tasks_fit_with_a_quarter_to_spare(shape: Shape) -> None:
    assert len(compress(large(shape), SPEC_BYTES)) + SPEC_BYTES <= LIMIT_BYTES == ETCD_BYTES * 3 // 4


shapes = st.builds(
    Shape,
    nodes=st.sampled_from(list(NODES)),
    is_ipv6=st.booleans(),
    retries=st.integers(0, 1000),
    failures=st.sampled_from([0, 1, 2, 50]),
    text=st.integers(0, 1000),
    containers=st.integers(1, 5),
    roles=st.sampled_from([1, 7, 500]),
)


@settings(max_examples=3, phases=[Phase.generate])  # an example takes a second
@given(shapes, st.integers(0, 2**32))
def test_whatever_they_are_ten_thousand_tasks_fit(shape: Shape, seed: int) -> None:
    assert len(compress(large(shape, seed=seed), SPEC_BYTES)) + SPEC_BYTES <= LIMIT_BYTES


def test_texts_that_shrink_to_nothing_are_cut_so_that_they_can_be_read_again() -> None:
    said = "\x1b" * 4096  # six bytes each in JSON
    containers = tuple(ContainerEnd(name=f"main{number}", message=said, code=1) for number in range(3))
    end = TaskCompletion(1, "ContainerUnrecognizedFailed", FAILED, said * 3, PodEnd(containers=containers))
    (quiet,) = roles_of(large(Shape(failures=0), MAX_ROLES_BYTES // len(msgspec.json.encode(end)) + 1))
    loud = with_roles(replace(quiet, task_statuses=tuple(ended(task, end) for task in quiet.task_statuses)))
    assert len(msgspec.json.encode(loud)) > MAX_ROLES_BYTES
    assert is_same(stored(loud, SPEC_BYTES), loud)


def ended(task: TaskStatus, end: TaskCompletion) -> TaskStatus:
    return replace(task, attempt_status=replace(task.attempt_status, completion_status=end))


def test_what_is_small_stays_plain() -> None:
    assert is_small(COMPRESS_FROM_BYTES - 1, 1000)
    assert not is_small(COMPRESS_FROM_BYTES, 1000)
    assert not is_small(COMPRESS_FROM_BYTES // 2, LIMIT_BYTES - COMPRESS_FROM_BYTES // 2 + 1)


def stored(status: FrameworkStatus, rest_bytes: int) -> FrameworkStatus:
    return STATUS_DECODER.decode(compress(status, rest_bytes))


def test_nothing_is_left_out_while_there_is_room() -> None:
    status = large(LARGE["aks"], 100)
    assert roles_of(stored(status, 0)) == status.attempt_status.task_role_statuses


def test_long_texts_are_left_out_first_then_where_pods_run_then_the_ends_of_containers() -> None:
    """Each step is reached by one more byte of the rest of the object."""
    status = large(LARGE["aks"], 100)
    found, rest = [], 0
    for _ in range(4):
        (only,) = roles_of(stored(status, rest))
        failed = only.task_statuses[0].attempt_status
        end = failed.completion_status
        assert end is not None
        found.append((len(end.diagnostics) > 4096, failed.pod_node_name is not None, end.pod is not None))
        rest = LIMIT_BYTES - len(compress(status, rest)) + 1
    assert found == [(True, True, True), (False, True, True), (False, False, True), (False, False, False)]


def test_a_text_that_was_cut_says_so() -> None:
    status = large(LARGE["aks"], 20)
    (only,) = roles_of(stored(status, LIMIT_BYTES - len(compress(status, 0)) + 1))
    end, whole = only.task_statuses[0].completion, roles_of(status)[0].task_statuses[0].completion
    assert end is not None
    assert whole is not None
    assert end.pod is not None
    assert end.diagnostics == f"{whole.diagnostics[:128]}... (cut: {len(whole.diagnostics)} characters)"
    assert end.pod.containers[0].message.endswith("... (cut: 4096 characters)")
    assert end.pod.containers[0].reason == "Error"


def test_a_text_is_not_cut_twice() -> None:
    status = large(LARGE["aks"], 20)
    again = stored(status, LIMIT_BYTES)
    again = replace(again, attempt_status=replace(again.attempt_status, task_role_statuses=roles_of(again)))
    assert roles_of(stored(again, LIMIT_BYTES)) == roles_of(again)


RESTS = (0, LIMIT_BYTES - 150_000, LIMIT_BYTES)


CHANGES: list[dict[str, Any]] = [
    {"state": State.DELETING},
    {"transition_time": at(9999)},
    {"retry_policy_status": RetryPolicyStatus(9, 9)},
    {"instance_uid": "other"},
    {"deletion_pending": True},
]


def changed(status: FrameworkStatus, **changes: Any) -> FrameworkStatus:
    """Return the status with another first Task."""
    (only,) = roles_of(status)
    first, *others = only.task_statuses
    return with_roles(replace(only, task_statuses=(replace(first, **changes), *others)))


@pytest.mark.parametrize("rest_bytes", RESTS)
def test_a_status_is_known_again_however_it_was_stored_and_another_is_not_the_same(rest_bytes: int) -> None:
    status = large(LARGE["aks"], 100)
    found = stored(status, rest_bytes)
    assert is_same(found, status)
    assert is_same(status, found)
    assert is_same(stored(status, 0), found)
    for change in CHANGES:
        other = changed(status, **change)
        assert not is_same(found, other), change
        assert not is_same(other, found), change


def test_plain_statuses_are_compared_whole() -> None:
    status = large(LARGE["aks"], 2)
    attempt = roles_of(status)[0].task_statuses[0].attempt_status
    assert is_same(status, status)
    assert not is_same(status, changed(status, attempt_status=replace(attempt, pod_node_name="elsewhere")))
    assert not is_same(status, None)
    assert is_same(None, None)
