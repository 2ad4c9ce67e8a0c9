"""Another definition or other permissions than the controller needs; and two replicas at the Lease of a cluster."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from frameworkcontroller.api import definition, names
from frameworkcontroller.api.spec import MAX_ROLES
from localcluster import Cluster
from localcluster.client import ApiStatusError, Json, RawClient
from localcluster.processes.ports import free_port
from testkit.frameworks import (
    POD,
    ControllerProcess,
    Frameworks,
    apply_definition,
    apply_permissions,
    framework,
    role,
    two_controllers,
)
from testkit.waiting import eventually
from tests.apiserver.conftest import ends_cleanly
from tests.support.beside.player import Player
from tests.support.beside.refusals import refusal_of
from tests.support.http import fetch

pytestmark = [pytest.mark.apiserver, pytest.mark.turns("crds")]
# Under the manifest's own Role: that Lease and no other.
ELECTION = {"enabled": True, "namespace": "frameworkcontroller-system"}


@contextlib.contextmanager
def another_definition(raw: RawClient, changed: Json) -> Iterator[None]:
    """Let the cluster have another definition of Frameworks for a while."""
    raw.apply(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{names.CRD_NAME}", changed)
    try:
        yield
    finally:
        apply_definition(raw)


def test_a_definition_without_the_status_subresource_is_named_and_waited_for(
    cluster: Cluster, raw: RawClient, frameworks: Frameworks, player: Player, tmp_path: Path
) -> None:
    """Microsoft's controller installs such a definition; it accepts no status."""
    without = definition.crd()
    del without["spec"]["versions"][0]["subresources"]

    def is_taken_away() -> None:
        served = raw.get(f"/apis/{names.API_VERSION}")["resources"]
        assert "frameworks/status" not in {found["name"] for found in served}

    def is_said() -> None:
        assert "has no status subresource" in controller.log

    port, settings = free_port(), {"namespaces": [frameworks.namespace]}
    controller = ControllerProcess(cluster, tmp_path, settings, health_port=port)
    with ends_cleanly(controller):
        with another_definition(raw, without):
            eventually(is_taken_away)
            controller.start(works=False)
            eventually(is_said)
            assert fetch(port, "/readyz")[0] == 503
        frameworks.create("fw", role("worker", 1))
        with player.playing():
            frameworks.wait("fw", "Completed")


TOO_MANY: dict[str, tuple[list[Json], str, str]] = {
    "TooManyTasks": (
        [role("ps", 10_000), role("worker", 10_000)],
        "the sum of taskRoles",
        "spec.taskRoles asks for 20000 Tasks in all",
    ),
    "TooManyTaskRoles": (
        [role(f"r{number}", 1) for number in range(MAX_ROLES + 1)],
        "taskRoles must have at most 1000 items",
        "spec.taskRoles has 1001 TaskRoles, and a Framework may have 1000",
    ),
}


def test_what_is_too_large_waits_with_an_event_and_a_condition_while_others_run_and_starts_when_it_asks_for_fewer(
    raw: RawClient, frameworks: Frameworks, player: Player, request: pytest.FixtureRequest
) -> None:
    """Both were stored before the definition refused them."""
    earlier = definition.crd()
    rules = earlier["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    rules["x-kubernetes-validations"] = rules["x-kubernetes-validations"][:1]

    def is_stored(reason: str) -> None:
        try:
            frameworks.create(reason.lower(), *TOO_MANY[reason][0])
        except ApiStatusError as error:
            raise AssertionError(error) from error

    def is_refused(reason: str) -> None:
        roles, refusal, _ = TOO_MANY[reason]
        assert refusal in refusal_of(raw, frameworks.path, framework(frameworks.namespace, "again", *roles))

    def is_said(reason: str) -> None:
        found = frameworks.conditions(reason.lower())["Suspended"]
        assert (found["status"], found["reason"]) == ("True", reason)
        assert TOO_MANY[reason][2] in found["message"]
        assert reason in {event["reason"] for event in frameworks.events(reason.lower())}

    with another_definition(raw, earlier):
        for reason in TOO_MANY:
            eventually(lambda reason=reason: is_stored(reason))
    for reason in TOO_MANY:
        eventually(lambda reason=reason: is_refused(reason))
    request.getfixturevalue("controller")
    for reason in TOO_MANY:
        eventually(lambda reason=reason: is_said(reason))
    attempt = frameworks.status("toomanytaskroles")["attemptStatus"]
    assert not attempt["taskRoleStatuses"]
    assert not attempt.get("taskRoleStatusesCompressed")
    with player.playing():
        frameworks.create("small", role("worker", 1))
        frameworks.wait("small", "Completed")
        assert frameworks.pods() == {}
        for reason in TOO_MANY:
            assert frameworks.status(reason.lower())["state"] == "AttemptCreationPending"
            frameworks.merge(reason.lower(), taskRoles=[role("worker", 2)])
            frameworks.wait(reason.lower(), "Completed")


def test_a_permission_that_the_controller_lacks_is_waited_for(
    controller: ControllerProcess, cluster: Cluster, frameworks: Frameworks, player: Player
) -> None:
    path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/frameworkcontroller"
    changed = frameworks.raw.get(path)
    for rule in changed["rules"]:
        if "pods" in rule["resources"]:
            rule["verbs"].remove("create")
    own = RawClient(cluster, cluster.token("frameworkcontroller-system", "frameworkcontroller"))
    try:
        frameworks.raw.replace(path, changed)

        def refused() -> None:
            pod = {"metadata": {"name": "x"}, **POD}
            assert "pods is forbidden: User" in refusal_of(own, frameworks.pods_path, pod)

        eventually(refused)
        frameworks.create("fw", role("worker", 1))

        def reported() -> None:
            assert any('cannot create resource "pods"' in event["message"] for event in frameworks.events("fw"))

        eventually(reported, 20)
        assert frameworks.tasks("fw")["worker-0"]["state"] == "AttemptCreationPending"
    finally:
        apply_permissions(cluster)
    with player.playing():
        frameworks.wait("fw", "Completed", 60)
    assert frameworks.tasks("fw")["worker-0"]["retryPolicyStatus"]["totalRetriedCount"] == 0


def test_of_two_replicas_one_works_and_the_other_takes_over_when_it_is_stopped_or_killed(
    cluster: Cluster, namespace: str, frameworks: Frameworks, player: Player, tmp_path: Path
) -> None:
    """How soon is tested in virtual time, in `tests/kube/election`."""
    first, second = two_controllers(cluster, tmp_path, {"namespaces": [namespace], "leaderElection": ELECTION})
    first.start()
    second.start(works=False)

    def waits() -> None:
        assert "waiting for the lease" in first.log[stopped:]

    def leads(replica: ControllerProcess, times: int) -> None:
        assert replica.log.count("caches are full") == times, replica.log[-1000:]

    try:
        player.plan = {"worker-0": ["stay"], "worker-1": ["stay"]}
        frameworks.create("fw", role("worker", 2))
        with player.playing():
            frameworks.wait("fw", "AttemptRunning")
            uids = {name: pod["metadata"]["uid"] for name, pod in frameworks.pods().items()}
            assert "state changed" not in second.log
            assert first.stop() == 0
            stopped = len(first.log)
            eventually(lambda: leads(second, 1))
            first.start(works=False)
            eventually(waits)
            second.kill()
            eventually(lambda: leads(first, 2), 30)
            player.plan = {}
            frameworks.wait("fw", "Completed")
        tasks = frameworks.tasks("fw")
        assert {f"fw-{slot}": task["attemptStatus"]["podUID"] for slot, task in tasks.items()} == uids
        assert [task["retryPolicyStatus"]["totalRetriedCount"] for task in tasks.values()] == [0, 0]
    finally:
        for replica in (first, second):
            replica.stop()
