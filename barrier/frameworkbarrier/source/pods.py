"""Pods as a source, for gangs without a Framework: Indexed Jobs, JobSets, StatefulSets, LeaderWorkerSets. Pure.

Every Pod of the gang watches all of them, which is quadratic; fine for some hundred Pods.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from frameworkbarrier.errors import SettingsError
from frameworkbarrier.gate.gang import Gang, Task, assemble, gpus_of, is_place, is_ready
from frameworkbarrier.shape import ShapeError, rows, table, word
from frameworkbarrier.text import is_dns_name, one_line
from frameworkbarrier.values import INDEX_LABELS

BARRIER_CONTAINER = "frameworkbarrier"


@dataclass(frozen=True, slots=True)
class Peer:
    """What is kept of one Pod."""

    role: str
    index: int
    uid: str
    created: str
    task: Task | str
    """Its Task if it is ready, otherwise why it is not."""
    gpus: int
    """GPUs that it asks for."""


def uid_of(pod: Mapping[str, Any]) -> str:
    """Return the UID of a Pod.

    Raises:
        ShapeError: it has none.
    """
    if uid := word(table(pod.get("metadata"), "metadata").get("uid"), "metadata.uid"):
        return uid
    raise ShapeError("metadata.uid: is not there")


def peer_of(pod: Mapping[str, Any], roles: Iterable[str], role_label: str, wait_for: str) -> Peer | None:
    """Read a Pod; None if it is no member (any more): no role, no index, finished, or being deleted.

    `wait_for` is what makes a Task ready: `ip` or `arrived`.

    Raises:
        ShapeError: the object is not a Pod; names the field.
    """
    meta, status = table(pod.get("metadata"), "metadata"), table(pod.get("status"), "status")
    labels = table(meta.get("labels"), "metadata.labels")
    names = tuple(roles)
    role = labels.get(role_label) if role_label else names[0]
    index = _index(meta)
    if role not in names or index is None or meta.get("deletionTimestamp"):
        return None
    if status.get("phase") in ("Succeeded", "Failed"):
        return None
    uid, name = uid_of(pod), word(meta.get("name"), "metadata.name")
    node = word(table(pod.get("spec"), "spec").get("nodeName"), "nodeName")
    ip, host_ip = word(status.get("podIP"), "status.podIP"), word(status.get("hostIP"), "status.hostIP")
    if not is_dns_name(name) or not is_place(node, host_ip):
        raise ShapeError(f"Pod {one_line(repr((name, node, host_ip)), 120)}: not a name, a nodeName and a hostIP")
    task: Task | str
    if is_ready(uid=uid, ip=ip, leaving=False, arrived=_arrived(status), wait_for=wait_for):
        task = Task(index, ip, uid[:8], 0, node, host_ip, name)
    else:
        task = _why(status)
    created = word(meta.get("creationTimestamp"), "metadata.creationTimestamp")
    return Peer(role, index, uid, created, task, gpus_of(pod, ""))


def check_own(pod: Mapping[str, Any], roles: Iterable[str], role_label: str) -> None:
    """Check that this very Pod can be a member: if it cannot, it would wait in vain and nothing would say why.

    Raises:
        SettingsError: it has no index, or no role of the gang.
    """
    meta, names = table(pod.get("metadata"), "metadata"), tuple(roles)
    if role_label and (role := table(meta.get("labels"), "metadata.labels").get(role_label)) not in names:
        found = "is not there" if role is None else f"is {role!r}"
        raise SettingsError(f"FB_ROLE_LABEL={role_label}: this Pod's label {found}; FB_ROLES names {', '.join(names)}")
    if _index(meta) is None:
        raise SettingsError(
            f"FB_SELECTOR: this Pod has no index: none of the labels {', '.join(INDEX_LABELS)}, and no number at the "
            f"end of its name, {meta.get('name')}; it is for Indexed Jobs, JobSets, StatefulSets and LeaderWorkerSets"
        )


def gang_of(peers: Iterable[Peer], roles: Mapping[str, int], namespace: str) -> Gang:
    """Build the gang of all members; of two for one index the younger counts. The generation is left 0."""
    newest: dict[tuple[str, int], Peer] = {}
    for peer in sorted(peers, key=lambda each: (each.created, each.uid)):
        newest[peer.role, peer.index] = peer

    def find(role: str, index: int) -> Task | str:
        found = newest.get((role, index))
        return found.task if found else "has no Pod yet"

    gpus = {role: peer.gpus for (role, _), peer in newest.items()}
    return assemble(Gang(namespace), roles.items(), find, gpus)


def _index(meta: Mapping[str, Any]) -> int | None:
    """Return the index that the Pod's controller gave it, or the ordinal at the end of its name."""
    for field in ("labels", "annotations"):
        source = table(meta.get(field), f"metadata.{field}")
        for name in INDEX_LABELS:
            text = source.get(name)
            if isinstance(text, str) and re.fullmatch(r"[0-9]{1,9}", text):
                return int(text)
    ordinal = re.search(r"-([0-9]{1,9})\Z", word(meta.get("name"), "metadata.name"))
    return int(ordinal[1]) if ordinal else None


def _arrived(status: Mapping[str, Any]) -> bool:
    """Report whether the Pod's barrier runs, or ran to its end."""
    for container in rows(status.get("initContainerStatuses"), "status.initContainerStatuses"):
        if container.get("name") == BARRIER_CONTAINER:
            state = table(container.get("state"), "status.initContainerStatuses.state")
            ended = table(state.get("terminated"), "status.initContainerStatuses.state.terminated")
            return bool(state.get("running")) or ended.get("exitCode") == 0
    return False


def _why(status: Mapping[str, Any]) -> str:
    """Say why a Pod is not ready: `Pending: Unschedulable: 0/3 nodes are available`, for example."""
    parts = [str(status.get("phase") or "Pending")]
    for condition in rows(status.get("conditions"), "status.conditions"):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            parts += [str(condition.get(key)) for key in ("reason", "message") if condition.get(key)]
    containers = (
        *rows(status.get("initContainerStatuses"), "status.initContainerStatuses"),
        *rows(status.get("containerStatuses"), "status.containerStatuses"),
    )
    for container in containers:
        state = table(container.get("state"), "status.containerStatuses.state")
        waiting = table(state.get("waiting"), "status.containerStatuses.state.waiting")
        if waiting.get("reason") and waiting["reason"] not in ("PodInitializing", "ContainerCreating"):
            parts += [str(waiting[key]) for key in ("reason", "message") if waiting.get(key)]
            break
    return one_line(": ".join(parts), 200)
