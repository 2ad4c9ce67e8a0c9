"""Frameworks of one name in several namespaces, by three controllers: two for one namespace each, one for two."""

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from localcluster import Cluster
from localcluster.client import Json, RawClient
from testkit.frameworks import ControllerProcess, Frameworks, manifests_of, role
from tests.apiserver.conftest import ends_cleanly
from tests.support.apiserver import fresh_namespace
from tests.support.beside.kubelet import Kubelet
from tests.support.beside.player import Player

pytestmark = pytest.mark.apiserver

NAME = "frameworkcontroller"
ELECTION = {"enabled": True, "leaseDurationSec": 4, "renewDeadlineSec": 3, "retryPeriodSec": 0.5}
RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces"
LEASES: Json = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create", "get", "update"]}


@dataclass
class Team:
    """A namespace, its Frameworks, and the controller that works there."""

    namespace: str
    frameworks: Frameworks
    player: Player
    controller: ControllerProcess

    def has_changed_only(self, *names: str) -> None:
        """Check whose states the controller has changed, and that it asked for nothing else."""
        assert set(re.findall(r"state changed  framework=(\S+)", self.controller.log)) == set(names)
        assert "forbidden" not in self.controller.log


@pytest.fixture
def teams(cluster: Cluster, raw: RawClient, tmp_path: Path) -> Iterator[list[Team]]:
    """Three teams; none of their controllers is started, each must have stopped cleanly in the end."""
    with contextlib.ExitStack() as stack:
        made = []
        for number in range(3):
            namespace = stack.enter_context(a_namespace(raw, f"team-{number}"))
            folder = tmp_path / namespace
            folder.mkdir()
            settings = {"namespaces": [namespace], "leaderElection": ELECTION | {"namespace": namespace, "name": NAME}}
            controller = ControllerProcess(cluster, folder, settings, account=(namespace, NAME))
            frameworks = Frameworks(raw, namespace)
            made.append(Team(namespace, frameworks, Player(Kubelet(raw, namespace), frameworks), controller))
        with ends_cleanly(*(team.controller for team in made)):
            yield made


@contextlib.contextmanager
def a_namespace(raw: RawClient, prefix: str) -> Iterator[str]:
    """A namespace with a service account that may do there what the controller does, and nothing anywhere else."""
    with fresh_namespace(raw, prefix) as name:
        cluster_role = next(one for one in manifests_of("frameworkcontroller") if one["kind"] == "ClusterRole")
        raw.create(f"/api/v1/namespaces/{name}/serviceaccounts", {"metadata": {"name": NAME}})
        raw.create(f"{RBAC}/{name}/roles", {"metadata": {"name": NAME}, "rules": [*cluster_role["rules"], LEASES]})
        let_in(raw, name, name)
        yield name


def let_in(raw: RawClient, namespace: str, account: str) -> None:
    """Give the permissions in a namespace to the service account of another."""
    subject = {"kind": "ServiceAccount", "name": NAME, "namespace": account}
    role_of = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": NAME}
    binding = {"metadata": {"name": account}, "subjects": [subject], "roleRef": role_of}
    raw.create(f"{RBAC}/{namespace}/rolebindings", binding)


def test_each_works_in_the_namespaces_that_it_is_given_and_the_others_go_on_while_one_is_dead(
    teams: list[Team], raw: RawClient
) -> None:
    for team in teams:
        team.controller.start()
        team.player.plan = {"worker-0": ["stay"]}
        team.frameworks.create("first", role("worker", 2, completion={"minSucceededTaskCount": 2}))
    dead, *others = teams
    with contextlib.ExitStack() as playing:
        for team in teams:
            playing.enter_context(team.player.playing())
            team.frameworks.wait("first", "AttemptRunning")
        leases = [f"/apis/coordination.k8s.io/v1/namespaces/{team.namespace}/leases/{NAME}" for team in teams]
        assert len({raw.get(lease)["spec"]["holderIdentity"] for lease in leases}) == 3
        uid = dead.frameworks.pods()["first-worker-0"]["metadata"]["uid"]
        dead.controller.kill()
        for team in teams:
            team.player.plan = {}
            team.frameworks.create("second", role("worker", 1))
        for team in others:
            team.frameworks.wait("first", "Completed")
            team.frameworks.wait("second", "Completed")
        assert "status" not in dead.frameworks.get("second"), "nobody else works there"
        dead.controller.start()
        dead.frameworks.wait("first", "Completed")
        dead.frameworks.wait("second", "Completed")
        assert dead.frameworks.tasks("first")["worker-0"]["attemptStatus"]["podUID"] == uid
        for team in teams:
            team.has_changed_only(f"{team.namespace}/first", f"{team.namespace}/second")
            team.controller.stop()

        # One is given another namespace, too.
        one, other = others
        let_in(raw, dead.namespace, one.namespace)
        one.controller.settings["namespaces"] = [one.namespace, dead.namespace]
        for team in teams:
            team.frameworks.create("third", role("worker", 2))
        one.controller.start()
        one.frameworks.wait("third", "Completed")
        dead.frameworks.wait("third", "Completed")
        assert "status" not in other.frameworks.get("third")
        changed = [f"{one.namespace}/{name}" for name in ("first", "second", "third")]
        one.has_changed_only(*changed, f"{dead.namespace}/third")
