"""The audit policy of docs/operate/security.md, in a real API server: it records misuse, and little else."""

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

from localcluster import Cluster
from localcluster.client import ApiStatusError, RawClient
from localcluster.processes.logs import complete_lines
from testkit.frameworks import Frameworks, role
from tests.support.apiserver import beside
from tests.support.pages import blocks

pytestmark = pytest.mark.apiserver

CONTROLLER = "system:serviceaccount:frameworkcontroller-system:frameworkcontroller"


def recorded(log: Path, namespace: str) -> set[tuple[str, str, str, str]]:
    """User, verb, resource and level of the requests about a namespace."""
    events: list[dict[str, Any]] = [json.loads(line) for line in complete_lines(log)]
    return {
        (event["user"]["username"], event["verb"], event["objectRef"]["resource"], event["level"])
        for event in events
        if event.get("objectRef", {}).get("namespace") == namespace
    }


def test_the_audit_policy_of_the_manual_records_misuse_and_little_else(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    log, file = tmp_path / "audit.log", tmp_path / "audit.yaml"
    (policy,) = [block.text for block in blocks("docs/operate/security.md") if block.file == file.name]
    file.write_text(policy)
    token = cluster.token("frameworkcontroller-system", "frameworkcontroller")
    with (
        beside(cluster, tmp_path, f"--audit-policy-file={file}", f"--audit-log-path={log}") as audited,
        contextlib.closing(RawClient(audited)) as user,
        contextlib.closing(RawClient(audited, token)) as controller,
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
        found = recorded(log, namespace)
    assert found == {
        ("admin", "create", "frameworks", "Metadata"),
        ("admin", "create", "roles", "RequestResponse"),
        (CONTROLLER, "list", "secrets", "Metadata"),
    }
