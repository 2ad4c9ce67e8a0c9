"""`why` and `doctor` against a real API server, which says itself why: no reason is written down."""

import json

import pytest

from localcluster.client import RawClient
from testkit.frameworks import POD, Frameworks, role
from testkit.waiting import eventually
from tests.support.beside.refusals import policy_of_pods, refusal_of, webhook
from tests.support.frameworkctl import Frameworkctl

pytestmark = [pytest.mark.apiserver, pytest.mark.long, pytest.mark.turns("crds")]


@pytest.mark.usefixtures("controller")
def test_a_start_a_quota_a_webhook_and_a_permission_that_are_missing_or_in_the_way_are_named(
    ctl: Frameworkctl, frameworks: Frameworks, raw: RawClient
) -> None:
    frameworks.create("waits", role("worker", 1), executionType="Create")
    ctl.says("why waits", "waits to be started", "-> frameworkctl start waits")
    assert json.loads(ctl.ok("why waits", "-o", "json").output)["findings"][0]["todo"] == "frameworkctl start waits"
    quotas = f"/api/v1/namespaces/{ctl.namespace}/resourcequotas"
    raw.create(quotas, {"metadata": {"name": "small"}, "spec": {"hard": {"pods": "0"}}})

    def is_enforced() -> None:
        assert raw.get(f"{quotas}/small").get("status", {}).get("hard") == {"pods": "0"}

    eventually(is_enforced, timeout=30)
    frameworks.create("stuck", role("worker", 2))
    cannot = "its Pod cannot be created"
    ctl.says("why stuck", f"worker-0, worker-1: {cannot}", "exceeded quota: small", "kubectl describe quota")
    raw.delete(f"{quotas}/small")

    with webhook(raw, ctl.namespace, "validating", "CREATE pods /v1", failurePolicy="Fail"):
        frameworks.create("called", role("worker", 1))
        ctl.says("why called", "failed calling webhook", "-> the webhook does not answer")

    path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/frameworkcontroller"
    rules = raw.get(path)["rules"]
    others = [rule for rule in rules if rule["resources"] != ["pods"]]
    less = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch", "patch", "delete"]}
    raw.merge(path, {"rules": [*others, less]})
    advice = "-> the controller has no permission: an administrator has to install its roles again"
    try:
        frameworks.create("denied", role("worker", 1))
        ctl.says("why denied", f"worker-0: {cannot}", 'cannot create resource "pods"', advice)
    finally:
        raw.merge(path, {"rules": rules})


@pytest.mark.usefixtures("controller")
def test_a_pod_that_a_policy_refuses_and_one_whose_service_account_does_not_exist(
    ctl: Frameworkctl, frameworks: Frameworks, raw: RawClient
) -> None:
    """The API server would refuse them again, so these Frameworks are over."""
    has_team = "has(object.metadata.labels) && 'team' in object.metadata.labels"
    marked = {"metadata": {"labels": {"team": "vision"}}, "spec": {**POD["spec"], "serviceAccountName": "absent"}}

    def refuses() -> None:
        assert "a Pod needs a team" in refusal_of(raw, frameworks.pods_path, {"metadata": {"name": "probe"}, **POD})

    told = {"expression": has_team, "message": "a Pod needs a team", "reason": "Forbidden"}
    with policy_of_pods(raw, ctl.namespace, **told):
        eventually(refuses, timeout=30)
        frameworks.create("stuck", role("worker", 1))
        ctl.says(
            "why stuck",
            "it is Completed and has failed by worker-0: PodCreationUnknownError (-310)",
            "a Pod needs a team",
            "-> change what the message names in the Pod template, and run it again: frameworkctl retry stuck",
        )
        frameworks.create("nobody", role("worker", 1, pod=marked))
        ctl.says("why nobody", 'serviceaccount "absent" not found', "-> create the service account")


def test_doctor_says_what_is_missing(ctl: Frameworkctl, frameworks: Frameworks) -> None:
    done = ctl("doctor")
    lines = {line.split()[1]: line.split()[0] for line in done.output.splitlines()}
    assert done.code == 1
    expected = {"Kubernetes": "ok", "definition": "ok", "controller": "failing", "injector": "failing"}
    assert lines.items() >= expected.items()
    assert "ok        permissions" in done.output
    stranger = ctl("doctor", "--as=nobody", "-o", "json")
    grades = {one["subject"]: one["grade"] for one in json.loads(stranger.output)}
    assert (grades["permissions"], grades["controller"]) == ("warning", "warning")
