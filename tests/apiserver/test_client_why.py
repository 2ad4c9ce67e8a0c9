"""`why` and `doctor` against a real API server: each reason is produced, not written down."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from frameworkcontroller.api.names import BARRIER_LABEL
from testkit.frameworks import POD, role
from testkit.waiting import eventually
from tests.support.frameworkctl import Frameworkctl
from tests.support.refusals import refusal_of

if TYPE_CHECKING:
    from pathlib import Path

    from localcluster import Cluster
    from localcluster.client import RawClient
    from testkit.frameworks import ControllerProcess, Frameworks
    from tests.support.kubelet import Kubelet
    from tests.support.player import Player

pytestmark = [pytest.mark.apiserver, pytest.mark.long, pytest.mark.turns("crds")]


@pytest.fixture
def ctl(cluster: Cluster, namespace: str, tmp_path: Path) -> Frameworkctl:
    """The command line of the administrator."""
    return Frameworkctl(cluster.kubeconfig, namespace, tmp_path)


def says(ctl: Frameworkctl, *texts: str) -> None:
    """Wait until `why` says all of this of the Framework `stuck`."""

    def check() -> None:
        page = ctl.ok("why stuck").output
        for text in texts:
            assert text in page, page

    eventually(check, timeout=30, interval=0.3)


def test_a_framework_that_waits_to_be_started_or_has_no_controller(ctl: Frameworkctl, frameworks: Frameworks) -> None:
    frameworks.create("stuck", role("worker", 1))
    says(ctl, "the controller has not seen it")


def test_what_holds_up_a_framework_whose_controller_runs(
    ctl: Frameworkctl, controller: ControllerProcess, frameworks: Frameworks
) -> None:
    frameworks.create("stuck", role("worker", 1), executionType="Create")
    says(ctl, "waits to be started", "-> frameworkctl start stuck")
    assert json.loads(ctl.ok("why stuck", "-o", "json").output)["findings"][0]["todo"] == "frameworkctl start stuck"


def test_a_quota_that_is_used_up(
    ctl: Frameworkctl, controller: ControllerProcess, frameworks: Frameworks, raw: RawClient, kubelet: Kubelet
) -> None:
    quotas = f"/api/v1/namespaces/{ctl.namespace}/resourcequotas"
    raw.create(quotas, {"metadata": {"name": "small"}, "spec": {"hard": {"pods": "0"}}})

    def is_enforced() -> None:
        assert raw.get(f"{quotas}/small").get("status", {}).get("hard") == {"pods": "0"}

    eventually(is_enforced, timeout=30)
    frameworks.create("stuck", role("worker", 2))
    says(ctl, "worker-0, worker-1: its Pod cannot be created", "exceeded quota: small", "kubectl describe quota")


def test_a_webhook_that_does_not_answer(
    ctl: Frameworkctl, controller: ControllerProcess, frameworks: Frameworks, raw: RawClient
) -> None:
    path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    webhook = {
        "name": "absent.example.org",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": ctl.namespace}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    raw.create(path, {"metadata": {"name": ctl.namespace}, "webhooks": [webhook]})
    try:
        frameworks.create("stuck", role("worker", 1))
        says(ctl, "failed calling webhook", "-> the webhook does not answer")
    finally:
        raw.delete(f"{path}/{ctl.namespace}")


def test_a_controller_that_may_not_create_pods(
    ctl: Frameworkctl, controller: ControllerProcess, frameworks: Frameworks, raw: RawClient
) -> None:
    path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/frameworkcontroller"
    rules = raw.get(path)["rules"]
    less = [
        {**rule, "verbs": [verb for verb in rule["verbs"] if verb != "create" or rule["resources"] != ["pods"]]}
        for rule in rules
    ]
    assert less != rules
    raw.merge(path, {"rules": less})
    try:
        frameworks.create("stuck", role("worker", 1))
        says(
            ctl,
            "worker-0: its Pod cannot be created",
            'cannot create resource "pods"',
            "-> the controller has no permission: an administrator has to install its roles again",
        )
    finally:
        raw.merge(path, {"rules": rules})


def test_a_pod_that_a_policy_refuses_and_one_whose_service_account_does_not_exist(
    ctl: Frameworkctl, controller: ControllerProcess, frameworks: Frameworks, raw: RawClient
) -> None:
    """The API server would refuse them again, so these Frameworks are over."""
    policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
    bindings, name = f"{policies.removesuffix('policies')}policybindings", ctl.namespace
    pods = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
    told = {
        "expression": "has(object.metadata.labels) && 'team' in object.metadata.labels",
        "message": "a Pod needs a team",
        "reason": "Forbidden",
    }
    rules = {"resourceRules": [pods]}
    raw.create(policies, {"metadata": {"name": name}, "spec": {"matchConstraints": rules, "validations": [told]}})
    here = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": ctl.namespace}}}
    bound = {"policyName": name, "validationActions": ["Deny"], "matchResources": here}
    raw.create(bindings, {"metadata": {"name": name}, "spec": bound})
    marked = {"metadata": {"labels": {"team": "vision"}}, "spec": {**POD["spec"], "serviceAccountName": "absent"}}
    try:

        def refuses() -> None:
            """The API server takes a policy over with a delay."""
            pod = {"metadata": {"name": "probe"}, **POD}
            assert "a Pod needs a team" in refusal_of(raw, f"/api/v1/namespaces/{ctl.namespace}/pods", pod)

        eventually(refuses, timeout=30)
        frameworks.create("stuck", role("worker", 1))
        says(
            ctl,
            "it is Completed and has failed by worker-0: PodCreationUnknownError (-310)",
            "a Pod needs a team",
            "-> change what the message names in the Pod template, and run it again: frameworkctl retry stuck",
        )
        frameworks.create("nobody", role("worker", 1, pod=marked))

        def says_who() -> None:
            page = ctl.ok("why nobody").output
            assert 'serviceaccount "absent" not found' in page
            assert "-> create the service account" in page

        eventually(says_who, timeout=30, interval=0.3)
    finally:
        raw.delete(f"{bindings}/{name}")
        raw.delete(f"{policies}/{name}")


def test_pods_that_were_not_injected(
    ctl: Frameworkctl, controller: ControllerProcess, frameworks: Frameworks, kubelet: Kubelet
) -> None:
    labelled = {"metadata": {"labels": {BARRIER_LABEL: "enabled"}}, **POD}
    frameworks.create("stuck", role("worker", 1, pod=labelled))
    says(ctl, "its Pod has the label of the barrier and no barrier: the injector has not seen it")


def test_pods_that_cannot_be_scheduled_or_pulled(
    ctl: Frameworkctl, controller: ControllerProcess, frameworks: Frameworks, kubelet: Kubelet, raw: RawClient
) -> None:
    frameworks.create("stuck", role("worker", 3))

    def pods() -> dict[str, Any]:
        found = frameworks.pods()
        assert len(found) == 3
        return found

    eventually(pods, timeout=30)
    kubelet.pending("stuck-worker-0", message="0/2 nodes are available: 2 Insufficient nvidia.com/gpu.")
    kubelet.bind("stuck-worker-1")
    waiting = {"name": "main", "image": "none", "imageID": "", "ready": False, "restartCount": 0}
    waiting["state"] = {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image none"}}
    path = f"/api/v1/namespaces/{ctl.namespace}/pods/stuck-worker-1/status"
    raw.merge(path, {"status": {"containerStatuses": [waiting]}})
    says(
        ctl,
        "worker-0: its Pod cannot be scheduled: 0/2 nodes are available",
        "no node has enough free nvidia.com/gpu",
        "worker-1: the image of container main cannot be pulled: ImagePullBackOff",
        "worker-2: its Pod waits for the scheduler",
    )


def test_a_delay_before_a_retry_and_a_role_that_waits(
    ctl: Frameworkctl, controller: ControllerProcess, frameworks: Frameworks, player: Player
) -> None:
    player.plan["worker-0"] = [201]
    frameworks.create("stuck", role("worker", 1), retryPolicy={"fancyRetryPolicy": True})
    with player.playing():
        says(ctl, "its attempt 1 is over (ContainerTransientConflictFailed (201))", "it waits for attempt 2, in ")
    frameworks.create(
        "waits", role("map", 1), {**role("reduce", 1), "dependsOn": [{"name": "map", "status": "Complete"}]}
    )

    def waits() -> None:
        assert "role reduce waits until map is Complete" in ctl.ok("why waits").output

    eventually(waits, timeout=30)


def test_a_framework_that_has_failed_names_the_task(
    ctl: Frameworkctl, controller: ControllerProcess, frameworks: Frameworks, player: Player
) -> None:
    player.plan["worker-0"] = [210]
    frameworks.create("stuck", role("worker", 1))
    with player.playing():
        says(ctl, "has failed by worker-0: ContainerPermanentFailed (210)", "frameworkctl retry stuck")


def test_doctor_says_what_is_missing(ctl: Frameworkctl, frameworks: Frameworks) -> None:
    done = ctl("doctor")
    lines = {line.split()[1]: line.split()[0] for line in done.output.splitlines()}
    assert done.code == 1
    assert (lines["Kubernetes"], lines["definition"], lines["controller"], lines["injector"]) == (
        "ok",
        "ok",
        "failing",
        "failing",
    )
    assert "ok        permissions" in done.output
    stranger = ctl("doctor", "--as=nobody", "-o", "json")
    grades = {one["subject"]: one["grade"] for one in json.loads(stranger.output)}
    assert (grades["permissions"], grades["controller"]) == ("warning", "warning")
