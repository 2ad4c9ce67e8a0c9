"""The roster of a gang without a Framework: it is to come, names its Pods, and may say who is first."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from frameworkbarrier import settings
from frameworkbarrier.errors import GoneError, SettingsError
from frameworkbarrier.files import render
from frameworkbarrier.files.container import Container
from frameworkbarrier.gate.gate import Fault, Gatekeeper, Observation, Released, Waiting
from frameworkbarrier.settings import OwnTask
from frameworkbarrier.source import choose
from frameworkbarrier.source.access import Access
from frameworkbarrier.source.api import Api
from frameworkbarrier.source.follow import Follower
from frameworkbarrier.source.roster import RosterError, decode
from frameworkbarrier.source.views import RosterView
from tests.barrier.faulty_server import FaultyServer, Reply, Request, Script
from tests.barrier.gangs import configmap, observation, roster, uid
from tests.barrier.test_follow import Hours

Serve = Callable[[Script], FaultyServer]
ENVIRON = {
    "FC_FRAMEWORK_NAMESPACE": "lab",
    "FB_ROSTER": "mnist-attempt",
    "FC_POD_NAME": "train-worker-0-1-x",
    "FC_POD_UID": uid("worker", 1),
}


def foreign(shape: dict[str, int], **changes: Any) -> dict[str, Any]:
    """A complete roster whose Pods have names of their own."""
    document = roster(shape, **changes)
    for role in document["taskRoles"]:
        role["pods"] = [f"train-{role['name']}-0-{index}-x" for index in range(len(role["tasks"]))]
    return document


def test_a_pod_finds_itself_by_uid_and_name() -> None:
    document = foreign({"ps": 1, "worker": 2})
    for role in document["taskRoles"]:
        for task in role["tasks"]:
            task[2] = uid("worker", 1)[:8]  # as rare as it is, also among thousands
    own = settings.parse(ENVIRON).own_task
    found = Gatekeeper(own).decide(observation(document))
    assert isinstance(found, Released)
    assert (found.task and found.task.pod, found.role and found.role.name) == ("train-worker-0-1-x", "worker")
    stranger = OwnTask(None, None, uid("worker", 1), "train-worker-0-7-x")
    assert isinstance(Gatekeeper(stranger).decide(observation(document)), Waiting)


@pytest.mark.parametrize("pods", [["a"], ["a", "b", "c"], ["a", "B"], ["a", 7], "ab", None])
def test_what_are_not_the_names_of_all_pods_is_no_roster(pods: Any) -> None:
    document = foreign({"worker": 2})
    document["taskRoles"][0]["pods"] = pods
    with pytest.raises(RosterError, match=r"pods"):
        decode(json.dumps(document))


def test_a_gang_that_can_never_be_complete_ends_the_barrier_with_the_reason() -> None:
    document = roster({"worker": 2}, ready=0, never="spec.parallelism is 1")
    with pytest.raises(GoneError, match=r"the gang can never be complete: spec\.parallelism is 1") as end:
        decode(json.dumps(document))
    assert end.value.exit_code == 210


@pytest.mark.parametrize(
    ("preset", "name", "shape", "first", "value"),
    [
        ("pytorch", "RANK", {"worker": 3}, "worker-1", "0"),
        ("pytorch", "RANK", {"worker": 3}, "worker-2", "2"),
        ("pytorch", "RANK", {"worker": 3}, "", "1"),
        ("pytorch", "RANK", {"driver": 1, "worker": 3}, "driver-0", "2"),
        ("pytorch", "RANK", {"left": 1, "worker": 2}, "left-0", "2"),
        ("pytorch", "MASTER_ADDR", {"worker": 3}, "worker-2", "10.0.0.3"),
        ("jax", "JAX_COORDINATOR_ADDRESS", {"worker": 3}, "worker-1", "10.0.0.2:8476"),
        ("ray", "RAY_ADDRESS", {"worker": 3}, "worker-2", "10.0.0.3:6379"),
    ],
)
def test_the_first_has_rank_0_and_is_the_head(
    preset: str, name: str, shape: dict[str, int], first: str, value: str
) -> None:
    document = foreign(shape, first=first)
    addresses = iter(range(1, 100))
    for role in document["taskRoles"]:
        for task in role["tasks"]:
            task[1] = f"10.0.0.{next(addresses)}"
    read = settings.parse(ENVIRON | {"FB_PRESET": preset})
    found = Gatekeeper(read.own_task).decide(observation(document))
    assert isinstance(found, Released)
    files = {file.name: file for file in render.render(found, read, Container()).files}
    made = dict(line.split("=", 1) for line in files["env"].data.decode().replace("'", "").splitlines())
    assert made[name] == value


def test_a_roster_that_is_not_there_yet_is_waited_for_and_one_that_goes_too(serve: Serve) -> None:
    def script(request: Request, reply: Reply) -> None:
        if request.watches:
            reply.stream()
            reply.event("ADDED", configmap(foreign({"worker": 2}), 2))
            reply.event("DELETED", configmap(foreign({"worker": 2}), 3))
            reply.event("ADDED", configmap(foreign({"worker": 2}, generation=4), 4))
            reply.hang()
        else:
            reply.status(404, "there is none")

    server = serve(script)
    items = choose.observe(settings.parse(ENVIRON), Api(Access(server.url)))
    seen = [next(items) for _ in range(4)]
    kinds = [type(one) for one in seen]
    assert kinds == [Fault, Observation, Fault, Observation]
    assert isinstance(seen[0], Fault)
    assert "ConfigMap lab/mnist-attempt with the roster is not there yet: is foreignGangs enabled" in seen[0].text
    assert isinstance(seen[3], Observation)
    assert seen[3].gang.generation == 4


def test_a_config_map_without_a_roster_is_waited_for_and_never_leads_to_a_framework(serve: Serve) -> None:
    server = serve(lambda _request, reply: reply.answer(200, configmap(None)))
    item = next(choose.observe(settings.parse(ENVIRON), Api(Access(server.url))))
    assert isinstance(item, Fault)
    assert {request.path for request in server.requests} == {"/api/v1/namespaces/lab/configmaps/mnist-attempt"}


def test_403_is_waited_out_until_the_timeout_of_the_barrier(serve: Serve) -> None:
    hours = Hours()

    def script(_request: Request, reply: Reply) -> None:
        if hours.now < 300:
            reply.status(403, "configmaps is forbidden")
        else:
            reply.answer(200, configmap(foreign({"worker": 2})))

    api, view = Api(Access(serve(script).url)), RosterView(settings.parse(ENVIRON))
    for item in Follower(api, view, poll_sec=1, sleep=hours.sleep, clock=hours.clock):
        if isinstance(item, Observation):
            break
        assert isinstance(item, Fault)
        assert item.forbidden
    assert 300 <= hours.now < 306


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"FC_FRAMEWORK_NAMESPACE": ""}, "FC_FRAMEWORK_NAMESPACE: is needed"),
        ({"FC_POD_UID": "", "FC_TASK_INDEX": "1"}, "FC_POD_UID: needed too"),
        ({"FB_RESTART": "in-place", "FB_MODE": "sidecar"}, "FB_RESTART: needs a Framework"),
        ({"FB_ROSTER": "gang-leaderworkerset.serve..r1-attempt"}, "must be the name of a Kubernetes object"),
    ],
)
def test_settings_that_cannot_work_are_told(changes: dict[str, str], fault: str) -> None:
    with pytest.raises(SettingsError, match=fault):
        settings.parse(ENVIRON | changes)
    assert settings.parse(ENVIRON).gang_name == "gang lab/mnist"


@pytest.mark.parametrize(("named", "address"), [({"FB_HEAD_ROLE": "driver"}, "10.0.0.7"), ({}, "10.0.0.9")])
def test_the_head_is_the_coordinator_whatever_the_roles_are_called_unless_the_user_names_one(
    named: dict[str, str], address: str
) -> None:
    document = foreign({"driver": 1, "worker": 2}, first="worker-1")
    document["taskRoles"][0]["tasks"][0][1] = "10.0.0.7"
    document["taskRoles"][1]["tasks"][1][1] = "10.0.0.9"
    read = settings.parse(ENVIRON | {"FB_PRESET": "ray"} | named)
    found = Gatekeeper(read.own_task).decide(observation(document))
    assert isinstance(found, Released)
    files = {file.name: file for file in render.render(found, read, Container()).files}
    assert f"RAY_ADDRESS='{address}:6379'".encode() in files["env"].data
