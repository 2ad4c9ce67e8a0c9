"""Pods that controllers of Kubernetes create from templates with the label: Jobs, StatefulSets, Deployments."""

import pytest

from localcluster.client import RawClient
from testkit.waiting import eventually
from tests.injector.golden_pods import JSON
from tests.injector.replica_processes import LABEL, PREFIX
from tests.support.beside.foreign_gangs import environment

pytestmark = [pytest.mark.apiserver, pytest.mark.turns("injector"), pytest.mark.usefixtures("injector")]


def template(restart: str, labels: JSON | None = None, **settings: str) -> JSON:
    annotations = {PREFIX + name.replace("_", "-"): value for name, value in settings.items()}
    return {
        "metadata": {"labels": {LABEL: "enabled", "app": "train", **(labels or {})}, "annotations": annotations},
        "spec": {"restartPolicy": restart, "containers": [{"name": "app", "image": "x", "command": ["python"]}]},
    }


def job(pod: JSON, mode: str = "Indexed", name: str = "train") -> JSON:
    spec = {"completionMode": mode, "completions": 2, "parallelism": 2, "backoffLimit": 0, "template": pod}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


def workload(kind: str, pod: JSON) -> JSON:
    spec = {"selector": {"matchLabels": {"app": "train"}}, "replicas": 2, "template": pod}
    if kind == "StatefulSet":
        spec |= {"podManagementPolicy": "Parallel", "serviceName": "train"}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "train"}, "spec": spec}


def pods(raw: RawClient, namespace: str, count: int) -> list[JSON]:
    def created() -> list[JSON]:
        found: list[JSON] = raw.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
        assert len(found) >= count
        return found

    return eventually(created, 60)


def selected(raw: RawClient, namespace: str, pod: JSON) -> set[str]:
    """Return the names of the Pods that the barrier of a Pod selects: what its selector finds at the API server."""
    text = environment(pod)["FB_SELECTOR"].replace("=", "%3D")
    found = raw.get(f"/api/v1/namespaces/{namespace}/pods?labelSelector={text}")["items"]
    return {one["metadata"]["name"] for one in found}


def test_the_pods_of_an_indexed_job_select_those_of_this_job_and_no_other(raw: RawClient, namespace: str) -> None:
    path = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    for name in ("train", "other"):
        raw.create(path, job(template("Never", roles="worker=2", preset="pytorch"), name=name))
    found = pods(raw, namespace, 4)
    for pod in found:
        owners = pod["metadata"]["ownerReferences"]
        mine = {one["metadata"]["name"] for one in found if one["metadata"]["ownerReferences"] == owners}
        assert len(mine) == 2
        assert selected(raw, namespace, pod) == mine
        assert environment(pod)["FB_ROLES"] == "worker=2"
        assert "batch.kubernetes.io/job-completion-index" in pod["metadata"]["labels"]


def test_the_pods_of_a_statefulset_wait_for_what_the_annotation_selects(raw: RawClient, namespace: str) -> None:
    document = workload("StatefulSet", template("Always", selector="app=train", roles="worker=2"))
    raw.create(f"/apis/apps/v1/namespaces/{namespace}/statefulsets", document)
    found = pods(raw, namespace, 2)
    assert {one["metadata"]["name"] for one in found} == {"train-0", "train-1"}
    assert all(selected(raw, namespace, one) == {"train-0", "train-1"} for one in found)


def test_a_workload_whose_pods_cannot_form_a_gang_says_why_in_its_events(raw: RawClient, namespace: str) -> None:
    """Those of a Deployment are Events of its ReplicaSet."""
    of_unknown = template("Never", {"role": "x"}, selector="app=train", roles="worker=2", role_label="role")
    jobs = {
        "no-index": (template("Never", roles="worker=2"), "set completionMode: Indexed in the Job"),
        "no-roles": (template("Never"), f"{PREFIX}roles is missing"),
        "unknown-role": (of_unknown, "has with the value 'x'"),
    }
    for name, (pod, _) in jobs.items():
        raw.create(f"/apis/batch/v1/namespaces/{namespace}/jobs", job(pod, "NonIndexed", name))
    deployed = workload("Deployment", template("Always", selector="app=train", roles="worker=2"))
    raw.create(f"/apis/apps/v1/namespaces/{namespace}/deployments", deployed)
    sentences = {name: sentence for name, (_, sentence) in jobs.items()}
    sentences["train-"] = "use a StatefulSet or an Indexed Job instead of a Deployment"

    def is_said() -> None:
        events = raw.get(f"/api/v1/namespaces/{namespace}/events")["items"]
        refusals = [one for one in events if one["reason"] == "FailedCreate"]
        for name, sentence in sentences.items():
            found = [one["message"] for one in refusals if one["involvedObject"]["name"].startswith(name)]
            assert found, name
            assert all("denied the request" in message and sentence in message for message in found), found

    eventually(is_said, 60)
    assert raw.get(f"/api/v1/namespaces/{namespace}/pods")["items"] == []


def test_the_server_keeps_each_entry_of_a_variable_that_envfrom_may_bring(raw: RawClient, namespace: str) -> None:
    """The kubelet needs all of them, in their order: the first is the barrier's, the last that exists counts."""
    minor = int(raw.get("/version")["minor"].rstrip("+"))
    pod = template("Never", roles="worker=2", selector="app=train", preset="pytorch")
    sources = [{"configMapRef": {"name": "a", "optional": True}}, {"prefix": "MASTER_", "secretRef": {"name": "b"}}]
    pod["spec"]["containers"][0] |= {"envFrom": sources, "env": [{"name": "RANK", "value": ""}]}
    pod["metadata"]["name"] = "train-0"
    path = f"/api/v1/namespaces/{namespace}/pods"
    created = raw.create(path, {"apiVersion": "v1", "kind": "Pod", **pod})
    env = created["spec"]["containers"][0]["env"]
    kinds = [next(iter(one["valueFrom"])) for one in env if one["name"] == "MASTER_PORT"]
    assert kinds == (["fileKeyRef", "configMapKeyRef", "secretKeyRef"] if minor >= 35 else [])
    # Labels of a Pod can still be changed by each kind of patch.
    labels = {"metadata": {"labels": {"changed": "yes"}}}
    raw.request("PATCH", f"{path}/train-0", labels, "application/strategic-merge-patch+json")
    whole = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "train-0", "labels": {"applied": "yes"}}}
    raw.request("PATCH", f"{path}/train-0?fieldManager=test", whole, "application/apply-patch+yaml")
    after = raw.get(f"{path}/train-0")
    assert {"changed", "applied"} <= set(after["metadata"]["labels"])
    assert after["spec"]["containers"][0]["env"] == env
