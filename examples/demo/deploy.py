"""Bring the three programs into a cluster, wait until they do their work, and take them away again."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from kubernetes.client.exceptions import ApiException

from demo import manifests
from demo.cluster import TROUBLE, why
from demo.errors import DemoError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from demo.cluster import Cluster, Manifest
    from demo.facts import Wire
    from demo.parts import Tell

READY_SECONDS = 180.0
GONE_SECONDS = 120.0
PAUSE_SECONDS = 0.3
_HOPELESS = frozenset({"ErrImageNeverPull", "ImagePullBackOff", "InvalidImageName"})


def deploy(cluster: Cluster, objects: list[Manifest], tell: Tell, seconds: float = READY_SECONDS) -> None:
    """Apply the programs and wait until all of them are ready.

    Args:
        cluster: Where to.
        objects: Their manifests, in order.
        tell: Called with what is being waited for, when that changes.
        seconds: How long to wait, for the definitions and for all together.

    Raises:
        DemoError: An object was refused, an image cannot be had, or something is not ready in time.
    """
    definitions = [o for o in objects if o["kind"] == "CustomResourceDefinition"]
    cluster.apply([o for o in objects if o["kind"] == "Namespace"])
    cluster.apply(definitions)
    _await(lambda: next(_unready(cluster, definitions), ""), seconds, tell)
    cluster.apply([o for o in objects if o["kind"] not in ("Namespace", "CustomResourceDefinition")])
    _await(lambda: next(_unready(cluster, objects), ""), seconds, tell)


def remove_framework(cluster: Cluster, framework: Manifest, namespace: str, tell: Tell) -> None:
    """Delete a previous run's Framework with all that it owns, and wait until it is gone.

    Raises:
        DemoError: It cannot be deleted, or is not gone in time.
    """
    if cluster.get(framework, namespace) is None:
        return
    cluster.delete([framework], namespace)
    name = framework["metadata"]["name"]
    gone = lambda: f"the end of the previous {name}" if cluster.get(framework, namespace) else ""  # noqa: E731
    _await(gone, GONE_SECONDS, tell)


def remove_all(cluster: Cluster, framework: Manifest, namespace: str, objects: list[Manifest], tell: Tell) -> None:
    """Take everything of the demo out of a cluster: the Framework first, while the controller still lives.

    Args:
        cluster: Where from.
        framework: The Framework.
        namespace: Its namespace, which goes too.
        objects: The programs.
        tell: Called with what is being waited for, when that changes.

    Raises:
        DemoError: Something cannot be deleted, or is not gone in time.
    """
    remove_framework(cluster, framework, namespace, tell)
    gone = [manifests.namespace(namespace), *reversed(objects)]
    cluster.delete(gone)
    slow = [o for o in gone if o["kind"] in ("Namespace", "CustomResourceDefinition")]

    def left() -> str:
        return next((f"the end of {o['metadata']['name']}" for o in slow if cluster.get(o) is not None), "")

    _await(left, GONE_SECONDS, tell)


def _await(missing: Callable[[], str], seconds: float, tell: Tell) -> None:
    deadline = time.monotonic() + seconds
    told = None
    while sentence := missing():
        if sentence != told:
            tell(sentence)
            told = sentence
        if time.monotonic() > deadline:
            raise DemoError(f"waited {seconds:.0f} s in vain for {sentence}")
        time.sleep(PAUSE_SECONDS)
    tell("")


def _unready(cluster: Cluster, objects: Iterable[Manifest]) -> Iterator[str]:
    for manifest in objects:
        if manifest["kind"] in _READY:
            found = cluster.get(manifest)
            name = manifest["metadata"]["name"]
            if found is None:
                yield f"{name} to appear"
            elif trouble := _READY[manifest["kind"]](found):
                detail = _pods_trouble(cluster, found) if manifest["kind"] == "Deployment" else ""
                yield f"{name}: {trouble}" + (f" ({detail})" if detail else "")


def _condition(found: Wire, kind: str) -> bool:
    conditions = (found.get("status") or {}).get("conditions") or []
    return any(c.get("type") == kind and c.get("status") == "True" for c in conditions)


def _established(found: Wire) -> str:
    return "" if _condition(found, "Established") else "not established"


def _available(found: Wire) -> str:
    status, wanted = found.get("status") or {}, found["spec"].get("replicas", 1)
    seen = status.get("observedGeneration", 0) >= found["metadata"]["generation"]
    if seen and status.get("updatedReplicas", 0) >= wanted and _condition(found, "Available"):
        # The Pods of an older image may still answer while the new ones start.
        return "" if status.get("replicas", 0) == wanted == status.get("readyReplicas", 0) else "rolling out"
    return f"{status.get('readyReplicas', 0)} of {wanted} ready"


def _trusted(found: Wire) -> str:
    bundles = [(hook.get("clientConfig") or {}).get("caBundle") for hook in found.get("webhooks") or []]
    return "" if bundles and all(bundles) else "no caBundle yet"


_READY: dict[str, Callable[[Wire], str]] = {
    "CustomResourceDefinition": _established,
    "Deployment": _available,
    "MutatingWebhookConfiguration": _trusted,
}


def pods_of(cluster: Cluster, deployment: Wire) -> list[Wire]:
    """Return the Pods that a Deployment selects, the newest last; none if they cannot be read now."""
    labels = deployment["spec"]["selector"]["matchLabels"]
    selector = ",".join(f"{key}={value}" for key, value in labels.items())
    with contextlib.suppress(*TROUBLE):
        pods = cluster.core.list_namespaced_pod(deployment["metadata"]["namespace"], label_selector=selector)
        raw: list[Wire] = cluster.api.sanitize_for_serialization(pods)["items"]
        return sorted(raw, key=lambda pod: pod["metadata"]["creationTimestamp"])
    return []


def _pods_trouble(cluster: Cluster, deployment: Wire) -> str:
    for pod in reversed(pods_of(cluster, deployment)):
        for container in (pod.get("status") or {}).get("containerStatuses") or []:
            waiting = (container.get("state") or {}).get("waiting") or {}
            reason = waiting.get("reason", "")
            if reason in _HOPELESS:
                raise DemoError(f"{pod['metadata']['name']}: {reason}: {waiting.get('message', '')}")
            if reason and reason != "ContainerCreating":
                return f"{reason}: {waiting.get('message', '')}"
    return ""


def log_tail(cluster: Cluster, pod: Wire, lines: int) -> list[str]:
    """Return the end of the log of a Pod's first container; of the one before if it was started again."""
    metadata, statuses = pod["metadata"], (pod.get("status") or {}).get("containerStatuses") or [{}]
    for previous in (False, True) if statuses[0].get("restartCount") else (False,):
        try:
            text = cluster.core.read_namespaced_pod_log(
                metadata["name"], metadata["namespace"], tail_lines=lines, previous=previous
            )
        except TROUBLE as error:
            return [f"(no log: {why(error)})"]
        if text.strip():
            return str(text).splitlines()
    return ["(its log is empty)"]


def pod_events(cluster: Cluster, namespace: str, lines: int) -> list[str]:
    """Return the last Events of a namespace, one line each."""
    try:
        found = cluster.core.list_namespaced_event(namespace).items
    except ApiException as error:
        return [f"(no Events: {why(error)})"]
    timed = sorted(found, key=lambda event: str(event.last_timestamp or event.event_time or ""))
    return [
        f"{e.type} {e.involved_object.kind}/{e.involved_object.name} {e.reason}: {e.message}" for e in timed[-lines:]
    ]
