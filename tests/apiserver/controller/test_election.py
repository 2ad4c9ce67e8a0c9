"""Leader election between processes at a real API server, under the permissions that the controller has there.

Each process that leads makes objects as fast as it may. The server numbers objects and versions of the Lease in one
sequence, so it says itself who held the Lease when each object was made.
"""

import asyncio
import contextlib
import signal
import subprocess
import sys
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from frameworkkube.election.election import LEASE_DURATION_SECONDS, LeaderElection
from frameworkkube.errors import KubeError
from frameworkkube.http.client import KubeClient
from frameworkkube.http.credentials import Endpoint
from frameworkkube.paths import resource_path
from localcluster import Cluster
from localcluster.client import RawClient
from testkit.waiting import eventually, patience

pytestmark = pytest.mark.apiserver

EVERY_SECONDS = 0.05


# --- the process -----------------------------------------------------------------------------------------------------


async def candidate(server: str, ca_file: str, token_file: str, namespace: str, name: str) -> None:
    """Compete until SIGTERM; create ConfigMaps labelled with its name while leading."""
    endpoint = Endpoint(server, ca_file=Path(ca_file), token_file=Path(token_file))
    lease_client = KubeClient(endpoint)
    election = LeaderElection(lease_client, namespace, "boss", name)
    client = KubeClient(endpoint, may_write=lambda: election.holds)
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
    with contextlib.suppress(asyncio.CancelledError):
        await task
    await client.close()
    await lease_client.close()


if __name__ == "__main__":
    asyncio.run(candidate(*sys.argv[1:]))


# --- the tests -------------------------------------------------------------------------------------------------------


@dataclass
class Electorate:
    """The candidates of one namespace, and what the API server knows of them."""

    cluster: Cluster
    raw: RawClient
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

    def wait_for(self, name: str, word: str) -> None:
        """Wait until the candidate logs this."""

        def logs() -> None:
            assert word in self.log(name), {each: self.log(each) for each in self.processes}

        eventually(logs, 2 * LEASE_DURATION_SECONDS, 0.02)

    def worker(self, of: str = "abc", times: int = 1) -> str:
        """Wait until these have worked so often, and return who was the last of them."""

        def works() -> str:
            found = [by for _, by in self.work() if by in of]
            assert len(found) >= times
            return found[-1]

        return eventually(works, 2 * LEASE_DURATION_SECONDS, 0.1)

    def work(self) -> list[tuple[int, str]]:
        """Return who created something, and when in the server's sequence."""
        found = self.raw.get(f"/api/v1/namespaces/{self.namespace}/configmaps?labelSelector=by")["items"]
        return sorted((int(o["metadata"]["resourceVersion"]), o["metadata"]["labels"]["by"]) for o in found)

    def holders(self) -> list[tuple[int, str]]:
        """Return who held the Lease, and from when on in the server's sequence."""
        leases = f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases"
        last, found = int(self.lease()["metadata"]["resourceVersion"]), list[tuple[int, str]]()
        for event in self.raw.watch(leases, self.since, 60):
            lease = event["object"]
            assert event["type"] in {"ADDED", "MODIFIED"}, event
            found.append((int(lease["metadata"]["resourceVersion"]), lease["spec"].get("holderIdentity") or ""))
            if found[-1][0] >= last:
                return found
        raise AssertionError(f"the watch ended before version {last}: {found}")

    def late(self) -> list[tuple[int, str]]:
        """Return what was not created by the holder of that moment."""
        holders, work = self.holders(), self.work()
        assert work
        moments = [moment for moment, _ in holders]
        return [(moment, by) for moment, by in work if holders[bisect_right(moments, moment) - 1][1] != by]

    def lease(self) -> dict[str, Any]:
        return self.raw.get(f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases/boss")


@pytest.fixture
def electorate(cluster: Cluster, raw: RawClient, namespace: str, tmp_path: Path) -> Iterator[Electorate]:
    """A namespace where the service account `candidate` has the permissions of a controller on its Lease."""
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
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "candidate"}
    subjects = [{"kind": "ServiceAccount", "name": "candidate", "namespace": namespace}]
    binding = {"metadata": {"name": "candidate"}, "roleRef": role, "subjects": subjects}
    raw.create(f"{rbac}/rolebindings", binding)
    since = raw.get(f"/api/v1/namespaces/{namespace}/configmaps")["metadata"]["resourceVersion"]
    made = Electorate(cluster, raw, namespace, tmp_path, since)
    yield made
    for process in made.processes.values():
        process.kill()
        process.wait(patience(10))


def test_of_three_that_start_together_one_leads_until_it_is_killed_and_the_next_until_it_is_stopped(
    electorate: Electorate,
) -> None:
    """How soon, and not before the end of a lease, is tested in virtual time, in `tests/kube/election`."""
    for name in "abc":
        electorate.start(name)
    for name in "abc":
        electorate.wait_for(name, "lease=boss")
    first = electorate.worker(times=20)
    assert [name for name in "abc" if "leads" in electorate.log(name)] == [first]
    electorate.processes[first].kill()
    second = electorate.worker(of="abc".replace(first, ""))
    assert electorate.lease()["spec"]["leaseTransitions"] == 1
    electorate.processes[second].terminate()
    third = electorate.worker(of="abc".replace(first, "").replace(second, ""))
    assert electorate.processes[second].wait(patience(10)) == 0
    # The Lease was free in between: nobody waited for its end.
    assert [holder for holder, _ in groupby(by for _, by in electorate.holders())] == [first, second, "", third]
    assert electorate.late() == [], electorate.holders()


def test_a_leader_that_was_frozen_longer_than_its_lease_sends_no_more_than_what_was_on_its_way(
    electorate: Electorate,
) -> None:
    """What such a request can do is tested with the controller, in `test_crashes`."""
    first = electorate.start("a")
    electorate.wait_for("a", "leads")
    electorate.start("b")
    electorate.wait_for("b", "held by a")
    first.send_signal(signal.SIGSTOP)
    electorate.worker(of="b", times=20)
    first.send_signal(signal.SIGCONT)
    electorate.wait_for("a", "stops")
    electorate.wait_for("a", "held by b")
    electorate.worker(times=len(electorate.work()) + 20)
    assert first.poll() is None
    assert electorate.log("a").count("leads") == 1
    # It makes one request at a time. The kernel may have frozen it between the question and the bytes.
    late = electorate.late()
    assert len(late) <= 1, (late, electorate.holders())
    assert {by for _, by in late} <= {"a"}
