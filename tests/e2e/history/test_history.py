"""The archive from its image, by the chart, on a real node: what real Pods have written outlives them."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from frameworkrelease.chart import NAMESPACE
from localcluster import Cluster
from localcluster.client import RawClient
from localcluster.processes.ports import free_port
from localcluster.programs import binaries
from testkit.frameworks import Frameworks, role
from testkit.waiting import eventually
from tests.e2e.gangs.ranks import Gang, rank
from tests.e2e.onenamespace import chart_node, install_chart
from tests.e2e.pods import pod, python
from tests.support.frameworkctl import Frameworkctl
from tests.support.http import fetch
from tests.support.waiting import has

pytestmark = [pytest.mark.node, pytest.mark.chart]

# The first run of each Task fails after a line on each stream, the second one ends well.
RUN = """
import os, sys
run = os.environ["FC_TASK_ATTEMPT_ID"]
print(f"run {run} says \\x1b[31mhello\\x1b[0m <b>", flush=True)
sys.exit(0 if int(run) else 3)
"""


@pytest.fixture(scope="module")
def cluster(pytestconfig: pytest.Config) -> Iterator[Cluster]:
    """A node with the programs and the archive, installed by the chart."""
    with chart_node(pytestconfig, "history", "history") as node:
        install_chart(node, "--set=history.enabled=true", "--set=history.persistence.enabled=false")
        yield node


class Page:
    """The archive's page by a forwarded port, which begins anew where it answers no more: it may lose its Pod."""

    def __init__(self, cluster: Cluster, log: Path) -> None:
        kubectl = binaries.find("kubectl", kubernetes=cluster.version)
        where = (f"--kubeconfig={cluster.kubeconfig}", f"--namespace={NAMESPACE}")
        self._command, self._log = [str(kubectl), "port-forward", *where, "service/frameworkhistory"], log
        self._forward()

    def _forward(self) -> None:
        self.port = free_port()
        with self._log.open("wb") as output:
            self._process = subprocess.Popen([*self._command, f"{self.port}:page"], stdout=output, stderr=output)
        has(self._log.read_text, "Forwarding", 30)

    def end(self) -> None:
        self._process.kill()
        self._process.wait()

    def get(self, path: str, token: str) -> tuple[int, str]:
        try:
            return fetch(self.port, path, Authorization=f"Bearer {token}")
        except OSError as error:
            said = self._log.read_text()
            self.end()
            self._forward()
            raise AssertionError(f"{error}: {said}") from error

    def archived(self, path: str, token: str) -> Any:
        status, text = self.get(f"/api/v1/{path}", token)
        assert status == 200, text
        return json.loads(text)


@pytest.fixture(scope="module")
def page(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    found = Page(cluster, tmp_path_factory.mktemp("forward") / "log")
    yield found
    found.end()


@pytest.fixture
def frameworks(raw: RawClient, namespace: str) -> Frameworks:
    return Frameworks(raw, namespace)


@pytest.fixture
def token(cluster: Cluster, namespace: str) -> str:
    """The token of somebody who may see Frameworks and logs of the namespace."""
    where = f"--namespace={namespace}"
    cluster.kubectl("create", "serviceaccount", "reader", where)
    rights = "--verb=get,list,watch"
    cluster.kubectl("create", "role", "frameworks", where, rights, "--resource=frameworks,pods,pods/log,events")
    cluster.kubectl(
        "create", "rolebinding", "reader", where, "--role=frameworks", f"--serviceaccount={namespace}:reader"
    )
    return cluster.kubectl("create", "token", "reader", where).strip()


def test_logs_of_each_run_and_the_last_state_outlive_the_framework(
    cluster: Cluster, frameworks: Frameworks, page: Page, token: str, tmp_path: Path
) -> None:
    retry = {"fancyRetryPolicy": False, "maxRetryCount": 1}
    frameworks.create("fw", role("worker", 2, pod={"spec": pod(python(RUN))["spec"]}, retry=retry))
    assert frameworks.wait("fw", "Completed", 120)["attemptStatus"]["completionStatus"]["code"] == 0
    cluster.kubectl("delete", "framework", "fw", f"--namespace={frameworks.namespace}", "--timeout=30s")
    one = f"frameworks/{frameworks.namespace}/fw"

    def is_deleted() -> Any:
        found = page.archived(one, token)
        assert found["archive"]["deleted"]
        return found

    found = eventually(is_deleted, 20)
    assert found["framework"]["status"]["state"] == "Completed"
    rows = page.archived(f"{one}/logs", token)["logs"]
    assert {(row["index"], row["run"], row["gap"]) for row in rows} == {(i, run, "") for i in (0, 1) for run in (0, 1)}
    assert "says hello &lt;b&gt;" in page.get(f"/frameworks/{frameworks.namespace}/fw/log", token)[1]
    assert page.get("/api/v1/frameworks?namespace=kube-system", token)[0] == 403
    assert page.get(f"/api/v1/{one}", "nobody")[0] == 401

    file = tmp_path / "token"
    file.write_text(token)
    ctl = Frameworkctl(cluster.kubeconfig, frameworks.namespace, tmp_path)
    flags = (f"--history=http://127.0.0.1:{page.port}", f"--history-token-file={file}")
    shown = ctl.ok("logs fw", *flags)
    assert sorted(shown.output.splitlines()) == [f"[worker-{i}] run 1 says \x1b[31mhello\x1b[0m <b>" for i in (0, 1)], (
        shown
    )
    assert "from the archive" in shown.errors
    assert "Succeeded (0)" in ctl.ok("describe fw", *flags).output
    assert "fw" in ctl.ok("list --all", *flags).output


def test_the_log_of_each_epoch_of_a_gang_that_restarts_in_its_pods_is_kept(
    cluster: Cluster, frameworks: Frameworks, page: Page, token: str
) -> None:
    gang = Gang(cluster, frameworks)
    gang.create(2, rank(crashes=2))
    gang.run_together(2, epoch=2, timeout=150)
    # Rank 1 may crash again before rank 0 has begun, which then runs once less.
    ran = {index: len(gang.runs(f"fw-worker-{index}")) for index in (0, 1)}
    assert ran[1] == 3
    one = f"frameworks/{frameworks.namespace}/fw"
    cluster.kubectl("delete", "framework", "fw", f"--namespace={frameworks.namespace}", "--timeout=60s")

    def are_known() -> None:
        rows = page.archived(f"{one}/logs", token)["logs"]
        mains = {(row["index"], row["restart"]): row["gap"] for row in rows if row["container"] == "main"}
        assert {(index, restart) for index in ran for restart in range(ran[index])} <= set(mains), mains
        assert [gap for gap in mains.values() if not gap], mains
        assert len(page.archived(one, token)["epochs"]) == 2

    eventually(are_known, 60)
