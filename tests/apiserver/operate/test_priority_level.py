"""The priority level of docs/performance.md: the API server takes it, and serves the controller by it."""

import pytest
import urllib3
import yaml

from localcluster import Cluster
from localcluster.client import RawClient
from tests.support.pages import blocks
from tests.support.waiting import becomes

pytestmark = [pytest.mark.apiserver, pytest.mark.turns("crds")]

GROUP = "/apis/flowcontrol.apiserver.k8s.io/v1"


def test_the_requests_of_the_controller_have_a_level_of_their_own(cluster: Cluster, raw: RawClient) -> None:
    (text,) = [block.text for block in blocks("docs/performance.md") if block.kind == "yaml"]
    level, schema = yaml.safe_load_all(text)
    paths = [f"{GROUP}/prioritylevelconfigurations/{level['metadata']['name']}"]
    paths.append(f"{GROUP}/flowschemas/{schema['metadata']['name']}")
    uids = [raw.apply(path, body)["metadata"]["uid"] for path, body in zip(paths, (level, schema), strict=True)]
    try:
        becomes(lambda: levels_of(cluster, "frameworkcontroller"), uids, 30)
        assert levels_of(cluster, "default")[0] != uids[0]
    finally:
        for path in reversed(paths):
            raw.delete(path)


def levels_of(cluster: Cluster, account: str) -> list[str]:
    """The UIDs of level and schema by which a request of a service account is served."""
    token = cluster.token("frameworkcontroller-system", account)
    with urllib3.PoolManager(ca_certs=str(cluster.ca_file), retries=False) as pool:
        headers = {"Authorization": f"Bearer {token}"}
        answer = pool.request("GET", f"{cluster.server}/api/v1/namespaces/default/pods", headers=headers)
        return [answer.headers[f"X-Kubernetes-PF-{of}-UID"] for of in ("PriorityLevel", "FlowSchema")]
