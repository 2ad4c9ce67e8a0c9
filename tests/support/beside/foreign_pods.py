"""Pods and owners of gangs of other controllers, as the API server shows them."""

from typing import Any

Json = dict[str, Any]
BARRIER = {"frameworkcontroller.microsoft.com/barrier": "enabled"}
ANNOTATION = "barrier.frameworkcontroller.microsoft.com/"


def pod(name: str, labels: Json, *, owner: tuple[str, str, str] | None = None, **more: Any) -> Json:
    """A Pod with the barrier's label; `owner` is kind, name and UID of its controller.

    `more` are `uid`, `ip`, `phase`, `created` (seconds), `deleting`, `annotations`, `arrived`, `account` and `gpus`.
    """
    meta: Json = {
        "name": name,
        "namespace": "default",
        "uid": more.get("uid", f"uid-of-{name}"),
        "resourceVersion": str(more.get("version", 1)),
        "creationTimestamp": f"2026-01-01T00:{more.get('created', 0) // 60:02}:{more.get('created', 0) % 60:02}Z",
        "labels": {**BARRIER, **labels},
        "annotations": more.get("annotations", {}),
    }
    if owner is not None:
        named = dict(zip(("kind", "name", "uid"), owner, strict=True))
        meta["ownerReferences"] = [{"apiVersion": "v1", "controller": True, **named}]
    if more.get("deleting"):
        meta["deletionTimestamp"] = "2026-01-01T01:00:00Z"
    limits = {"nvidia.com/gpu": str(more["gpus"])} if more.get("gpus") else {}
    status: Json = {"phase": more.get("phase", "Pending"), "podIP": more.get("ip", ""), "hostIP": "10.0.0.1"}
    if more.get("arrived"):
        status["initContainerStatuses"] = [{"name": "frameworkbarrier", "state": {"running": {}}}]
    return {
        "metadata": meta,
        "spec": {
            "nodeName": "node-1",
            "serviceAccountName": more.get("account", "default"),
            "initContainers": [{"name": "frameworkbarrier"}],
            "containers": [{"name": "app", "resources": {"limits": limits}}],
        },
        "status": status,
    }


def of_jobset(role: str, job: int, index: int, *, attempt: int = 0, name: str = "train", **more: Any) -> Json:
    """A Pod of a JobSet; `of` is the UID of that."""
    job_name = f"{name}-{role}-{job}"
    labels = {
        "jobset.sigs.k8s.io/jobset-name": name,
        "jobset.sigs.k8s.io/jobset-uid": more.pop("of", f"uid-of-{name}"),
        "jobset.sigs.k8s.io/restart-attempt": str(attempt),
        "jobset.sigs.k8s.io/replicatedjob-name": role,
        "jobset.sigs.k8s.io/job-index": str(job),
        "batch.kubernetes.io/job-completion-index": str(index),
        "batch.kubernetes.io/job-name": job_name,
        "batch.kubernetes.io/controller-uid": f"uid-of-{job_name}-{attempt}",
    }
    owner = ("Job", job_name, f"uid-of-{job_name}-{attempt}")
    return pod(more.pop("pod", f"{job_name}-{index}-{attempt}"), labels, owner=owner, **more)


def of_job(index: int, *, name: str = "train", **more: Any) -> Json:
    """A Pod of an Indexed Job; `of` is the UID of that."""
    uid = more.pop("of", f"uid-of-{name}")
    labels = {
        "batch.kubernetes.io/job-name": name,
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-completion-index": str(index),
    }
    return pod(more.pop("pod", f"{name}-{index}-x"), labels, owner=("Job", name, uid), **more)


def of_stateful_set(index: int, *, name: str = "train", **more: Any) -> Json:
    """A Pod of a StatefulSet; `of` is the UID of that."""
    labels = {"apps.kubernetes.io/pod-index": str(index)}
    return pod(f"{name}-{index}", labels, owner=("StatefulSet", name, more.pop("of", f"uid-of-{name}")), **more)


def of_lws(group: int, index: int, size: int, *, name: str = "serve", **more: Any) -> Json:
    """A Pod of a LeaderWorkerSet."""
    leader = f"{name}-{group}"
    labels = {
        "leaderworkerset.sigs.k8s.io/name": name,
        "leaderworkerset.sigs.k8s.io/group-index": str(group),
        "leaderworkerset.sigs.k8s.io/group-key": f"key{group}",
        "leaderworkerset.sigs.k8s.io/template-revision-hash": more.pop("revision", "r1"),
        "leaderworkerset.sigs.k8s.io/worker-index": str(index),
    }
    annotations = {"leaderworkerset.sigs.k8s.io/size": str(size)} | more.pop("annotations", {})
    owner = ("StatefulSet", leader if index else name, f"uid-of-{leader}")
    pod_name = more.pop("pod", f"{leader}-{index}" if index else leader)
    return pod(pod_name, labels, owner=owner, annotations=annotations, **more)


def bare(role: str, index: int, size: str, *, gang: str = "mine", **more: Any) -> Json:
    """A Pod that says all by annotations."""
    said = {"gang": gang, "gang-role": role, "gang-index": str(index), "gang-size": size}
    annotations = {f"{ANNOTATION}{key}": value for key, value in said.items()}
    return pod(more.pop("pod", f"{gang}-{role}-{index}"), {}, annotations=annotations, **more)


def jobset(replicated: list[Json], *, name: str = "train", **spec: Any) -> Json:
    """A JobSet of `replicated_job`s."""
    return owner({"replicatedJobs": replicated, **spec}, name=name)


def replicated_job(name: str, replicas: int, pods: int, *, opted_in: bool = True, **more: Any) -> Json:
    """A replicated job of a JobSet; `more` are other fields of its Job's spec, and `dependsOn`."""
    spec = {"parallelism": pods, "completions": pods, "template": {"metadata": {"labels": BARRIER if opted_in else {}}}}
    depends = {"dependsOn": more.pop("dependsOn")} if "dependsOn" in more else {}
    return {"name": name, "replicas": replicas, "template": {"spec": spec | more}, **depends}


def owner(spec: Json, *, name: str = "train", uid: str = "") -> Json:
    """A Job, StatefulSet or LeaderWorkerSet with this spec."""
    meta = {"name": name, "namespace": "default", "uid": uid or f"uid-of-{name}", "resourceVersion": "1"}
    return {"metadata": meta, "spec": spec}
