"""The audit policy of docs/operate/hardening.md, in a real API server: it records misuse, and little else."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from localcluster.client import ApiStatusError, RawClient
from localcluster.logs import complete_lines
from localcluster.ports import free_port
from localcluster.supervisor import Supervisor
from testkit.frameworks import Frameworks, role
from testkit.waiting import eventually, patience
from tests.support.pages import blocks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from localcluster import Cluster

pytestmark = pytest.mark.apiserver

CONTROLLER = "system:serviceaccount:frameworkcontroller-system:frameworkcontroller"


@dataclasses.dataclass(frozen=True)
class Audited:
    """A second API server of the cluster, and its audit log."""

    cluster: Cluster
    log: Path

    def recorded(self, namespace: str) -> set[tuple[str, str, str, str]]:
        """User, verb, resource and level of the requests about a namespace."""
        events: list[dict[str, Any]] = [json.loads(line) for line in complete_lines(self.log)]
        return {
            (event["user"]["username"], event["verb"], event["objectRef"]["resource"], event["level"])
            for event in events
            if event.get("objectRef", {}).get("namespace") == namespace
        }


@pytest.fixture
def audited(cluster: Cluster, tmp_path: Path) -> Iterator[Audited]:
    """An API server with the arguments of the cluster's, and with the policy of the page."""
    (policy,) = [block.text for block in blocks("docs/operate/hardening.md") if block.file == "audit.yaml"]
    (tmp_path / "audit.yaml").write_text(policy)
    port, log = free_port(), tmp_path / "audit.log"
    own = {"--secure-port": port, "--audit-policy-file": tmp_path / "audit.yaml", "--audit-log-path": log}
    pid = Supervisor(cluster.state).running("kube-apiserver")
    arguments = Path(f"/proc/{pid}/cmdline").read_text().rstrip("\0").split("\0")
    kept = [argument for argument in arguments if argument.partition("=")[0] not in own]
    command = [*kept, *(f"{name}={value}" for name, value in own.items())]
    second = dataclasses.replace(cluster, api_port=port)
    with (tmp_path / "server.log").open("wb") as output, contextlib.closing(RawClient(second)) as raw:
        process = subprocess.Popen(command, stdout=output, stderr=output)

        def is_ready() -> None:
            assert process.poll() is None, (tmp_path / "server.log").read_text()[-2000:]
            ready = raw.check_ready()
            assert ready is True, ready

        try:
            eventually(is_ready, timeout=60)
            yield Audited(second, log)
        finally:
            process.terminate()
            process.wait(patience(30))


def test_the_audit_policy_of_the_manual_records_misuse_and_little_else(audited: Audited, namespace: str) -> None:
    token = audited.cluster.token("frameworkcontroller-system", "frameworkcontroller")
    with (
        contextlib.closing(RawClient(audited.cluster)) as user,
        contextlib.closing(RawClient(audited.cluster, token)) as controller,
    ):
        frameworks = Frameworks(user, namespace)
        frameworks.create("fw", role("worker", 1))
        frameworks.get("fw")
        user.get(f"/api/v1/namespaces/{namespace}/secrets")
        rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
        granted = {"metadata": {"name": "x"}, "rules": rules}
        user.create(f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/roles", granted)
        Frameworks(controller, namespace).get("fw")
        controller.get(f"/api/v1/namespaces/{namespace}/pods")
        with pytest.raises(ApiStatusError, match="403"):
            controller.get(f"/api/v1/namespaces/{namespace}/secrets")
    assert audited.recorded(namespace) == {
        ("admin", "create", "frameworks", "Metadata"),
        ("admin", "create", "roles", "RequestResponse"),
        (CONTROLLER, "list", "secrets", "Metadata"),
    }
