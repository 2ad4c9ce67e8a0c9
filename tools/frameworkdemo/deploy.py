"""Install the controller and the injector in a cluster, wait until they are ready, and remove them again."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from frameworkdemo import manifests
from frameworkdemo.cluster import API_ERRORS, name_of, reason_of
from frameworkdemo.errors import DemoError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from frameworkdemo.cluster import Cluster, JsonObject, Manifest
    from frameworkdemo.progress import ReportDetail

READY_SECONDS = 180.0
GONE_SECONDS = 300.0
PAUSE_SECONDS = 0.3
_FATAL_REASONS = frozenset({"ErrImageNeverPull", "ImagePullBackOff", "InvalidImageName"})


def deploy(cluster: Cluster, objects: list[Manifest], report: ReportDetail, seconds: float = READY_SECONDS) -> None:
    """Apply the programs and wait until all of them are ready.

    Args:
        cluster: The cluster.
        objects: The manifests of the programs, in order.
        report: Called with what the wait is for, whenever that changes.
        seconds: The limit of the wait for the CRDs, and of that for all objects.

    Raises:
        DemoError: An object was refused, an image cannot be pulled, or an object was not ready in time.
    """
    definitions = [o for o in objects if o["kind"] == "CustomResourceDefinition"]
    cluster.apply([o for o in objects if o["kind"] == "Namespace"])
    cluster.apply(definitions)
    _wait_until_done(lambda: next(_unready(cluster, definitions), ""), seconds, report)
    cluster.apply([o for o in objects if o["kind"] not in ("Namespace", "CustomResourceDefinition")])
    _wait_until_done(lambda: next(_unready(cluster, objects), ""), seconds, report)


def remove(cluster: Cluster, objects: list[Manifest], namespace: str | None, report: ReportDetail) -> None:
    """Delete objects, with those that they own, and wait until all of them are gone.

    Args:
        cluster: The cluster.
        objects: Their manifests, in the order of the deletions; absent ones are skipped.
        namespace: The namespace of namespaced objects whose manifests name none.
        report: Called with what the wait is for, whenever that changes.

    Raises:
        DemoError: An object cannot be deleted, or was not gone in time.
    """
    found = [manifest for manifest in objects if cluster.get(manifest, namespace) is not None]
    cluster.delete(found, namespace)

    def left() -> str:
        return next((f"the end of {name_of(o)}" for o in found if cluster.get(o, namespace) is not None), "")

    _wait_until_done(left, GONE_SECONDS, report)


def remove_all(
    cluster: Cluster, framework: Manifest, namespace: str, objects: list[Manifest], report: ReportDetail
) -> None:
    """Remove the demo from a cluster, the Framework first, while the controller still runs.

    Args:
        cluster: The cluster.
        framework: The manifest of the Framework.
        namespace: Its namespace, which is removed too.
        objects: The manifests of the programs.
        report: Called with what the wait is for, whenever that changes.

    Raises:
        DemoError: An object cannot be deleted, or was not gone in time.
    """
    remove(cluster, [framework], namespace, report)
    removed = [manifests.namespace(namespace), *reversed(objects)]
    cluster.delete(removed)
    slow = [o for o in removed if o["kind"] in ("Namespace", "CustomResourceDefinition")]

    def left() -> str:
        return next((f"the end of {o['metadata']['name']}" for o in slow if cluster.get(o) is not None), "")

    _wait_until_done(left, GONE_SECONDS, report)


def _wait_until_done(missing: Callable[[], str], seconds: float, report: ReportDetail) -> None:
    deadline = time.monotonic() + seconds
    reported = None
    while sentence := missing():
        if sentence != reported:
            report(sentence)
            reported = sentence
        if time.monotonic() > deadline:
            raise DemoError(f"gave up after {seconds:.0f} s of waiting for {sentence}")
        time.sleep(PAUSE_SECONDS)
    report("")


def _unready(cluster: Cluster, objects: Iterable[Manifest]) -> Iterator[str]:
    for manifest in objects:
        if manifest["kind"] in _READY:
            found = cluster.get(manifest)
            name = manifest["metadata"]["name"]
            if found is None:
                yield f"{name} to appear"
            elif problem := _READY[manifest["kind"]](found):
                detail = _pod_problem(cluster, found) if manifest["kind"] == "Deployment" else ""
                yield f"{name}: {problem}" + (f" ({detail})" if detail else "")


def _condition(found: JsonObject, kind: str) -> bool:
    conditions = (found.get("status") or {}).get("conditions") or []
    return any(c.get("type") == kind and c.get("status") == "True" for c in conditions)


def _established(found: JsonObject) -> str:
    return "" if _condition(found, "Established") else "not established"


def _available(found: JsonObject) -> str:
    status, wanted = found.get("status") or {}, found["spec"].get("replicas", 1)
    seen = status.get("observedGeneration", 0) >= found["metadata"]["generation"]
    if seen and status.get("updatedReplicas", 0) >= wanted and _condition(found, "Available"):
        # Pods of an older image may still be ready while the new ones start.
        return "" if status.get("replicas", 0) == wanted == status.get("readyReplicas", 0) else "rolling out"
    return f"{status.get('readyReplicas', 0)} of {wanted} ready"


def _missing_ca_bundle(found: JsonObject) -> str:
    bundles = [(hook.get("clientConfig") or {}).get("caBundle") for hook in found.get("webhooks") or []]
    return "" if bundles and all(bundles) else "no caBundle yet"


_READY: dict[str, Callable[[JsonObject], str]] = {
    "CustomResourceDefinition": _established,
    "Deployment": _available,
    "MutatingWebhookConfiguration": _missing_ca_bundle,
}


def pods_of(cluster: Cluster, deployment: JsonObject) -> list[JsonObject]:
    """Return the Pods that a Deployment selects, the newest last; none if they cannot be read."""
    labels = deployment["spec"]["selector"]["matchLabels"]
    selector = ",".join(f"{key}={value}" for key, value in labels.items())
    with contextlib.suppress(*API_ERRORS):
        pods = cluster.core.list_namespaced_pod(deployment["metadata"]["namespace"], label_selector=selector)
        raw: list[JsonObject] = cluster.api.sanitize_for_serialization(pods)["items"]
        return sorted(raw, key=lambda pod: pod["metadata"]["creationTimestamp"])
    return []


def _pod_problem(cluster: Cluster, deployment: JsonObject) -> str:
    for pod in reversed(pods_of(cluster, deployment)):
        for container in (pod.get("status") or {}).get("containerStatuses") or []:
            waiting = (container.get("state") or {}).get("waiting") or {}
            reason = waiting.get("reason", "")
            if reason in _FATAL_REASONS:
                raise DemoError(f"{pod['metadata']['name']}: {reason}: {waiting.get('message', '')}")
            if reason and reason != "ContainerCreating":
                return f"{reason}: {waiting.get('message', '')}"
    return ""


def log_tail(cluster: Cluster, pod: JsonObject, lines: int) -> list[str]:
    """Return the end of the log of a Pod's first container, or of its previous instance if the log is empty."""
    metadata, statuses = pod["metadata"], (pod.get("status") or {}).get("containerStatuses") or [{}]
    for previous in (False, True) if statuses[0].get("restartCount") else (False,):
        try:
            text = cluster.core.read_namespaced_pod_log(
                metadata["name"], metadata["namespace"], tail_lines=lines, previous=previous
            )
        except API_ERRORS as error:
            return [f"(no log: {reason_of(error)})"]
        if text.strip():
            return str(text).splitlines()
    return ["(its log is empty)"]


def pod_events(cluster: Cluster, namespace: str, lines: int) -> list[str]:
    """Return the last Events of a namespace, one line each."""
    try:
        found = cluster.core.list_namespaced_event(namespace).items
    except API_ERRORS as error:
        return [f"(no Events: {reason_of(error)})"]
    timed = sorted(found, key=lambda event: str(event.last_timestamp or event.event_time or ""))
    return [
        f"{e.type} {e.involved_object.kind}/{e.involved_object.name} {e.reason}: {e.message}" for e in timed[-lines:]
    ]
