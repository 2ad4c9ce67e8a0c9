"""What Kueue's own integration for Pods, which is on by default, does to the Pods of Frameworks.

Their controller is the ConfigMap of the attempt, at which Kueue's search for a managed owner ends, unless the
administrator names its kind as that of a job of others and lets Kueue read it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from localcluster.client import ApiStatusError
from testkit import kueue
from testkit.waiting import eventually
from tests.support.queued import CONFIG_MAPS, restarted

if TYPE_CHECKING:
    from localcluster.client import Json, RawClient

pytestmark = [pytest.mark.apiserver, pytest.mark.long, pytest.mark.turns("kueue")]
QUEUED = {"kueue.x-k8s.io/queue-name": "main"}
GATED = ["kueue.x-k8s.io/admission", "kueue.x-k8s.io/topology"]


def created(raw: RawClient, namespace: str, labels: dict[str, str]) -> list[str]:
    """Create a Pod whose controller is a ConfigMap with these labels; return its gates."""
    maps, pods = f"/api/v1/namespaces/{namespace}/configmaps", f"/api/v1/namespaces/{namespace}/pods"
    made = raw.create(maps, {"metadata": {"generateName": "attempt-", "labels": labels}})["metadata"]
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": made["name"], "uid": made["uid"], "controller": True}
    body: Json = {
        "metadata": {"name": f"{made['name']}-0", "ownerReferences": [owner]},
        "spec": {"containers": [{"name": "main", "image": "none"}]},
    }

    def answer() -> Json:
        try:
            return raw.create(pods, body)
        except ApiStatusError as error:
            raise AssertionError(str(error)) from error

    return [gate["name"] for gate in eventually(answer, 30)["spec"].get("schedulingGates", [])]


def test_a_queue_named_default_takes_pods_of_frameworks_unless_kueue_knows_their_config_maps(
    installed: kueue.Kueue, raw: RawClient, namespace: str
) -> None:
    def taken() -> None:
        assert created(raw, namespace, QUEUED) == GATED

    restarted(installed)
    kueue.quota(raw, namespace)
    assert created(raw, namespace, QUEUED) == created(raw, namespace, {}) == []
    kueue.quota(raw, namespace, local="default")
    eventually(taken, 30)
    restarted(installed, "Framework.v1.frameworkcontroller.microsoft.com")
    eventually(taken, 30)
    restarted(installed, CONFIG_MAPS)
    assert created(raw, namespace, QUEUED) == []
    restarted(installed, CONFIG_MAPS, manageJobsWithoutQueueName=True)
    assert created(raw, namespace, QUEUED) == created(raw, namespace, {}) == []
