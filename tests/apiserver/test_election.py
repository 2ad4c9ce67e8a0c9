"""Leader election between processes at a real API server, under the rights that the controller has there.

Each process that leads makes objects as fast as it may. The server numbers objects and versions of the Lease in one
sequence, so it says itself who held the Lease when each object was made.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from bisect import bisect_right
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from frameworkcontroller.cluster.credentials import Endpoint
from frameworkcontroller.cluster.election import (
    JITTER,
    LEASE_DURATION_SECONDS,
    RETRY_PERIOD_SECONDS,
    LeaderElection,
)
from frameworkcontroller.cluster.rest import KubeClient, KubeError, resource_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from localcluster import Cluster
    from support.raw import Raw

pytestmark = pytest.mark.apiserver

LOOK = RETRY_PERIOD_SECONDS * (1 + JITTER)
SLACK = 2.0
"""What a busy machine may take to start what it has decided."""
EVERY_SECONDS = 0.05


# --- the process -----------------------------------------------------------------------------------------------------


async def candidate(server: str, ca_file: str, token_file: str, namespace: str, name: str) -> None:
    """Compete until SIGTERM; make a ConfigMap labelled with the own name again and again while leading."""
    client = KubeClient(Endpoint(server, ca_file=Path(ca_file), token_file=Path(token_file)))
    election = LeaderElection(client, namespace, "boss", name)
    path = resource_path("v1", "configmaps", namespace=namespace)
    body = b'{"metadata":{"generateName":"work-","labels":{"by":"%s"}}}' % name.encode()

    async def lead() -> None:
        print("leads", flush=True)
        try:
            while True:
                if election.holds:
                    try:
                        await client.create(path, body)
                    except KubeError as error:
                        print(error, flush=True)
                await asyncio.sleep(EVERY_SECONDS)
        finally:
            print("stops", flush=True)

    task = asyncio.create_task(election.run(lead))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        pass
    finally:
        await client.close()


if __name__ == "__main__":
    asyncio.run(candidate(*sys.argv[1:]))


# --- the tests -------------------------------------------------------------------------------------------------------


@dataclass
class Electorate:
    """The candidates of one namespace, and what the API server knows of them."""

    cluster: Cluster
    raw: Raw
    namespace: str
    folder: Path
    since: str
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, name: str) -> subprocess.Popen[bytes]:
        token = self.folder / "token"
        token.write_text(self.cluster.token(self.namespace, "candidate"))
        arguments = [self.cluster.server, str(self.cluster.ca_file), str(token), self.namespace, name]
        with (self.folder / name).open("ab") as log:
            self.processes[name] = subprocess.Popen([sys.executable, __file__, *arguments], stdout=log, stderr=log)
        return self.processes[name]

    def log(self, name: str) -> str:
        return (self.folder / name).read_text()

    def wait_for(self, name: str, word: str, seconds: float) -> float:
        """Until the candidate says so; the seconds that it took."""
        began = time.monotonic()
        while word not in self.log(name):
            assert time.monotonic() < began + seconds, {each: self.log(each) for each in self.processes}
            time.sleep(0.02)
        return time.monotonic() - began

    def work(self) -> list[tuple[int, str]]:
        """When (in the server's sequence) who made something."""
        found = self.raw.get(f"/api/v1/namespaces/{self.namespace}/configmaps?labelSelector=by")["items"]
        return sorted((int(o["metadata"]["resourceVersion"]), o["metadata"]["labels"]["by"]) for o in found)

    def holders(self) -> list[tuple[int, str]]:
        """From when on (in the server's sequence) who held the Lease."""
        leases = f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases"
        events = list(self.raw.watch(leases, self.since, 2))
        versions = [event["object"] for event in events if event["type"] in {"ADDED", "MODIFIED"}]
        return [(int(o["metadata"]["resourceVersion"]), o["spec"].get("holderIdentity") or "") for o in versions]

    def assert_never_two(self) -> None:
        """Everything was made by the holder of that moment."""
        holders, work = self.holders(), self.work()
        assert work
        moments = [moment for moment, _ in holders]
        for moment, by in work:
            place = bisect_right(moments, moment) - 1
            assert holders[place][1] == by, (moment, by, holders)

    def lease(self) -> dict[str, Any]:
        return self.raw.get(f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases/boss")


@pytest.fixture
def electorate(cluster: Cluster, raw: Raw, namespace: str, tmp_path: Path) -> Iterator[Electorate]:
    """A namespace where the service account `candidate` has the rights of a controller about its Lease."""
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    raw.create(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "candidate"}})
    lease = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"]}
    rules = [
        # A create cannot be limited to a name: the server does not know it before it reads the body.
        lease | {"verbs": ["create"]},
        lease | {"verbs": ["get", "update"], "resourceNames": ["boss"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]},
    ]
    raw.create(f"{rbac}/roles", {"metadata": {"name": "candidate"}, "rules": rules})
    raw.create(
        f"{rbac}/rolebindings",
        {
            "metadata": {"name": "candidate"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "candidate"},
            "subjects": [{"kind": "ServiceAccount", "name": "candidate", "namespace": namespace}],
        },
    )
    since = raw.get(f"/api/v1/namespaces/{namespace}/configmaps")["metadata"]["resourceVersion"]
    made = Electorate(cluster, raw, namespace, tmp_path, since)
    yield made
    for process in made.processes.values():
        process.kill()
        process.wait(10)


def test_of_three_that_start_together_one_leads(electorate: Electorate) -> None:
    for name in ("a", "b", "c"):
        electorate.start(name)
    for name in ("a", "b", "c"):
        electorate.wait_for(name, "lease=boss", 30)
    time.sleep(3)
    assert sum("leads" in electorate.log(name) for name in ("a", "b", "c")) == 1
    assert len({by for _, by in electorate.work()}) == 1
    electorate.assert_never_two()


def test_a_killed_leader_is_replaced_within_its_lease_and_a_look(electorate: Electorate) -> None:
    first = electorate.start("a")
    electorate.wait_for("a", "leads", 30)
    electorate.start("b")
    electorate.wait_for("b", "held by a", 30)
    time.sleep(3)
    first.send_signal(signal.SIGKILL)
    assert electorate.wait_for("b", "leads", 60) <= LEASE_DURATION_SECONDS + LOOK + SLACK
    time.sleep(1)
    assert electorate.work()[-1][1] == "b"
    assert electorate.lease()["spec"]["leaseTransitions"] == 1
    electorate.assert_never_two()


def test_a_leader_that_is_told_to_stop_hands_over_within_3_seconds(electorate: Electorate) -> None:
    first = electorate.start("a")
    electorate.wait_for("a", "leads", 30)
    electorate.start("b")
    electorate.wait_for("b", "held by a", 30)
    time.sleep(1)
    first.send_signal(signal.SIGTERM)
    assert electorate.wait_for("b", "leads", 30) <= 3.0
    assert first.wait(10) == 0
    time.sleep(1)
    assert electorate.work()[-1][1] == "b"
    electorate.assert_never_two()


def test_a_leader_that_was_frozen_longer_than_its_lease_does_not_work_when_it_wakes(electorate: Electorate) -> None:
    first = electorate.start("a")
    electorate.wait_for("a", "leads", 30)
    electorate.start("b")
    electorate.wait_for("b", "held by a", 30)
    first.send_signal(signal.SIGSTOP)
    electorate.wait_for("b", "leads", 60)
    time.sleep(2)
    first.send_signal(signal.SIGCONT)
    electorate.wait_for("a", "stops", 10)
    electorate.wait_for("a", "held by b", 10)
    time.sleep(1)
    assert first.poll() is None
    assert electorate.log("a").count("leads") == 1
    electorate.assert_never_two()


def test_a_lease_that_may_not_be_written_is_said(electorate: Electorate) -> None:
    path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{electorate.namespace}/rolebindings/candidate"
    electorate.raw.delete(path)
    electorate.start("a")
    electorate.wait_for("a", 'cannot get resource "leases" in API group "coordination.k8s.io"', 30)
    assert "leads" not in electorate.log("a")
