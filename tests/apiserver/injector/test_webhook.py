"""The injector as the API server calls it: a separate process with the shipped service account and manifests."""

import base64
import contextlib
import json
import re
import ssl
from pathlib import Path
from typing import Any

import pytest
import urllib3
import yaml

from frameworkbarrier.presets import model as presets
from frameworkinjector.review.config import EnvFiles
from localcluster import Cluster
from localcluster.client import ApiStatusError, RawClient
from localcluster.processes.logs import complete_lines
from testkit.waiting import eventually
from tests.injector.created_pods import check_created, make_restricted
from tests.injector.golden_pods import INJECTED, JSON, env_files_of, pod_of
from tests.injector.replica_processes import (
    CONFIGURATION,
    LABEL,
    SECRET,
    SYSTEM,
    Replica,
    call,
    called,
    create,
    framework_pod,
)
from tests.support.rows import each
from tests.support.waiting import becomes

pytestmark = [pytest.mark.apiserver, pytest.mark.turns("injector")]


@pytest.fixture(scope="module")
def supported(raw: RawClient) -> EnvFiles:
    """Return what the API server supports by default."""
    return EnvFiles.QUOTED if int(raw.get("/version")["minor"].rstrip("+")) >= 35 else EnvFiles.NONE


def test_a_pod_with_the_label_gets_the_barrier(raw: RawClient, injector: Replica, namespace: str) -> None:
    created = create(raw, namespace, framework_pod(namespace))
    (barrier,), (app,) = created["spec"]["initContainers"], created["spec"]["containers"]
    assert barrier["name"] == "frameworkbarrier"
    env = {one["name"]: one.get("value") for one in barrier["env"]}
    assert (env["FC_FRAMEWORK_NAME"], env["FC_TASK_INDEX"], env["FB_PRESET"]) == ("mnist", "1", "tensorflow")
    mounts = {one["mountPath"]: one for one in app["volumeMounts"]}
    assert mounts["/etc/hosts"]["subPath"] == "hosts"
    # The application keeps the token that the server mounts, and the barrier gets no second one.
    at = "/var/run/secrets/kubernetes.io/serviceaccount"
    assert mounts[at]["name"].startswith("kube-api-access-")
    assert [one["name"] for one in barrier["volumeMounts"] if one["mountPath"] == at] == ["frameworkbarrier-token"]


def test_a_refusal_names_the_annotation_and_is_final(raw: RawClient, injector: Replica, namespace: str) -> None:
    with pytest.raises(ApiStatusError) as refused:
        create(raw, namespace, framework_pod(namespace, preset="tensorfow"))
    # 422: the controller takes it as permanent and does not retry.
    assert refused.value.status == 422
    assert refused.value.body["message"] == (  # type: ignore[index]
        'admission webhook "barrier.frameworkcontroller.microsoft.com" denied the request: Annotation '
        "barrier.frameworkcontroller.microsoft.com/preset is 'tensorfow', but must be one or more of "
        f"{', '.join(presets.in_order())}, separated by commas."
    )


@each("case, policy", [("job-selector", "Never"), ("job-selector", "OnFailure"), ("preset-tensorflow-file", "Always")])
def test_a_client_is_warned_where_a_barrier_that_gives_up_ends_nothing(
    cluster: Cluster, injector: Replica, namespace: str, case: str, policy: str
) -> None:
    pod = pod_of(case)
    pod["spec"]["restartPolicy"] = policy
    pod["metadata"].pop("ownerReferences", None)
    pod["metadata"].pop("namespace", None)
    pool = urllib3.PoolManager(ca_certs=str(cluster.ca_file), retries=False)
    headers = {"Authorization": f"Bearer {cluster.admin_token}", "Content-Type": "application/json"}
    url = f"{cluster.server}/api/v1/namespaces/{namespace}/pods?dryRun=All"
    answer = pool.request("POST", url, body=json.dumps(pod), headers=headers)
    assert answer.status == 201, answer.data
    found = answer.headers.get("Warning", "")
    assert ("A barrier that gives up" in found) == (policy == "OnFailure")
    assert ("restartPolicy is 'OnFailure' and not Never" in found) == (policy == "OnFailure")


@each("case", INJECTED)
def test_the_server_accepts_each_golden_pod_where_restricted_is_enforced(
    case: str, raw: RawClient, injector: Replica, supported: EnvFiles, namespace: str
) -> None:
    check_created(case, raw, namespace, supported)


def test_the_server_accepts_the_golden_pods_of_clusters_without_env_files(
    raw: RawClient, identity: Path, injector: Replica, namespace: str, tmp_path: Path
) -> None:
    cases = [case for case in INJECTED if env_files_of(case) is EnvFiles.NONE]
    assert cases
    with called(raw, identity, tmp_path, "--env-files=none"):
        for case in cases:
            check_created(case, raw, namespace, EnvFiles.NONE)
        call(raw, injector.port)


def test_a_server_that_calls_twice_gets_one_barrier(raw: RawClient, injector: Replica, namespace: str) -> None:
    """As with `reinvocationPolicy: IfNeeded` after another webhook changed the Pod; here in dry runs."""
    webhook, _ = raw.get(CONFIGURATION)["webhooks"]
    again = {**webhook, "name": "again.frameworkcontroller.microsoft.com"}
    collection, _, _ = CONFIGURATION.rpartition("/")
    path, before = f"{collection}/again-{namespace[-8:]}", reasons(injector)
    raw.create(collection, {"metadata": {"name": f"again-{namespace[-8:]}"}, "webhooks": [again]})
    try:

        def called_twice() -> None:
            created = raw.create(f"/api/v1/namespaces/{namespace}/pods?dryRun=All", framework_pod(namespace))
            assert [one["name"] for one in created["spec"]["initContainers"]] == ["frameworkbarrier"]
            assert len(created["spec"]["volumes"]) == 3
            assert reasons(injector)["already-present"] > before["already-present"]

        eventually(called_twice, timeout=15)
        assert raw.get(f"/api/v1/namespaces/{namespace}/pods")["items"] == []
    finally:
        raw.delete(path)


def reasons(injector: Replica) -> dict[str, float]:
    """Return the counts of outcomes so far, by reason."""
    series = r'^frameworkinjector_requests_total\{outcome="[^"]+",reason="([^"]+)"\} (\S+)$'
    found = re.findall(series, injector.health("/metrics")[1], re.MULTILINE)
    return {reason: float(value) for reason, value in found}


def test_the_service_account_may_not_do_more_than_it_needs(cluster: Cluster, raw: RawClient, identity: Path) -> None:
    token = yaml.safe_load(identity.read_text())["users"][0]["user"]["token"]
    secrets, pods = f"/api/v1/namespaces/{SYSTEM}/secrets", f"/api/v1/namespaces/{SYSTEM}/pods?dryRun=All"
    with contextlib.closing(RawClient(cluster, token)) as limited:
        assert limited.get(SECRET)["metadata"]["name"] == "frameworkinjector-tls"
        attempts: list[Any] = [
            (limited.get, secrets),
            (limited.get, "/api/v1/namespaces/kube-system/secrets"),
            (limited.merge, f"{SECRET}-other", {"data": None}),
            (limited.create, secrets, {"metadata": {"name": "another"}}),
            (limited.delete, SECRET),
            (limited.merge, f"{CONFIGURATION}-other", {"webhooks": None}),
            (limited.create, pods, framework_pod(SYSTEM)),
            (limited.get, CONFIGURATION.rpartition("/")[0]),
            (limited.delete, CONFIGURATION),
            (limited.get, "/api/v1/pods"),
        ]
        for attempt, *arguments in attempts:
            with pytest.raises(ApiStatusError) as refused:
                attempt(*arguments)
            assert refused.value.status == 403


def test_an_overwritten_ca_bundle_is_repaired(raw: RawClient, injector: Replica, namespace: str) -> None:
    before, question = raw.get(CONFIGURATION)["webhooks"]
    other = base64.b64encode(ssl.get_server_certificate(("127.0.0.1", injector.port)).encode()).decode()
    overwritten = {"webhooks": [{"name": before["name"], "clientConfig": {"caBundle": other}}]}
    raw.request("PATCH", CONFIGURATION, overwritten, "application/strategic-merge-patch+json")
    becomes(lambda: raw.get(CONFIGURATION)["webhooks"], [before, question], 20)
    call(raw, injector.port)
    create(raw, namespace, framework_pod(namespace))


def test_the_log_shows_outcomes_and_nothing_of_a_pod(raw: RawClient, injector: Replica, namespace: str) -> None:
    pod = framework_pod(namespace, name="secret-bearer")
    pod["spec"]["containers"][0]["env"] = [{"name": "PASSWORD", "value": "hunter2-very-secret"}]
    create(raw, namespace, pod)

    def logged() -> JSON:
        lines = [json.loads(line) for line in complete_lines(injector.log)]
        found = [line for line in lines if line.get("namespace") == namespace]
        assert len(found) == 1
        return found[0]

    line = eventually(logged)
    assert (line["outcome"], line["reason"], line["kind"]) == ("injected", "injected", "Pod")
    assert "hunter2" not in injector.log.read_text()
    assert "secret-bearer" not in injector.log.read_text()


def test_without_a_replica_only_pods_that_ask_for_the_barrier_are_refused(
    raw: RawClient, identity: Path, namespace: str, tmp_path: Path
) -> None:
    with called(raw, identity, tmp_path):
        pass
    with pytest.raises(ApiStatusError) as refused:
        create(raw, namespace, framework_pod(namespace))
    assert refused.value.status == 500
    assert "failed calling webhook" in str(refused.value)
    plain = framework_pod(namespace)
    del plain["metadata"]["labels"][LABEL]
    assert "initContainers" not in create(raw, namespace, plain)["spec"]
    for system in ("kube-system", SYSTEM):
        pod = framework_pod(system, name="opted-in")
        make_restricted(pod)
        assert "initContainers" not in raw.create(f"/api/v1/namespaces/{system}/pods?dryRun=All", pod)["spec"]
