"""The audit policy of docs/operate/security.md, in a real API server: it records misuse, and little else."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

import pytest

from localcluster.client import ApiStatusError, RawClient
from localcluster.logs import complete_lines
from testkit.frameworks import Frameworks, role
from tests.support.apiserver import beside
from tests.support.pages import blocks

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from localcluster import Cluster

pytestmark = pytest.mark.apiserver

CONTROLLER = "system:serviceaccount:frameworkcontroller-system:frameworkcontroller"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "audit.log"


@pytest.fixture
def audited(cluster: Cluster, log: Path, tmp_path: Path) -> Iterator[Cluster]:
    """The cluster by an API server with the policy of the page."""
    (policy,) = [block.text for block in blocks("docs/operate/security.md") if block.file == "audit.yaml"]
    (tmp_path / "audit.yaml").write_text(policy)
    arguments = (f"--audit-policy-file={tmp_path / 'audit.yaml'}", f"--audit-log-path={log}")
    with beside(cluster, tmp_path, *arguments) as found:
        yield found


def recorded(log: Path, namespace: str) -> set[tuple[str, str, str, str]]:
    """User, verb, resource and level of the requests about a namespace."""
    events: list[dict[str, Any]] = [json.loads(line) for line in complete_lines(log)]
    return {
        (event["user"]["username"], event["verb"], event["objectRef"]["resource"], event["level"])
        for event in events
        if event.get("objectRef", {}).get("namespace") == namespace
    }


def test_the_audit_policy_of_the_manual_records_misuse_and_little_else(
    audited: Cluster, log: Path, namespace: str
) -> None:
    token = audited.token("frameworkcontroller-system", "frameworkcontroller")
    with (
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
    assert recorded(log, namespace) == {
        ("admin", "create", "frameworks", "Metadata"),
        ("admin", "create", "roles", "RequestResponse"),
        (CONTROLLER, "list", "secrets", "Metadata"),
    }
