"""Pods as a source, for gangs without a Framework: Indexed Jobs, JobSets, StatefulSets, LeaderWorkerSets. Pure.

Every Pod of the gang watches all of them, which is quadratic; fine for some hundred Pods.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .errors import SettingsError
from .gang import Gang, Missing, Role, Task
from .roster import is_ip, one_line

BARRIER_CONTAINER = "frameworkbarrier"
MISSING_SHOWN = 10
INDEX_LABELS = (
    "batch.kubernetes.io/job-completion-index",
    # Before the next: Pods of a LeaderWorkerSet belong to StatefulSets too, whose index of a leader is its group's.
    "leaderworkerset.sigs.k8s.io/worker-index",
    "apps.kubernetes.io/pod-index",
)


@dataclass(frozen=True, slots=True)
class Peer:
    """What is kept of one Pod."""

    role: str
    index: int
    uid: str
    name: str
    ip: str
    node: str
    host_ip: str
    created: str
    arrived: bool
    """Its barrier container runs, or ran to its end."""
    why: str
    """Why it may not be ready."""


def peer_of(pod: Mapping[str, Any], roles: Iterable[str], role_label: str) -> Peer | None:
    """Read a Pod; None if it is not, or not any more, a member: no role, no index, finished, or being deleted."""
    meta, status = pod["metadata"], pod.get("status") or {}
    labels = meta.get("labels") or {}
    names = tuple(roles)
    role = labels.get(role_label) if role_label else names[0]
    index = _index(meta)
    if role not in names or index is None or meta.get("deletionTimestamp"):
        return None
    if status.get("phase") in {"Succeeded", "Failed"}:
        return None
    address = status.get("podIP")
    return Peer(
        role=role,
        index=index,
        uid=str(meta["uid"]),
        name=str(meta["name"]),
        ip=str(address) if is_ip(address) else "",
        node=str((pod.get("spec") or {}).get("nodeName") or ""),
        host_ip=str(status.get("hostIP") or ""),
        created=str(meta.get("creationTimestamp") or ""),
        arrived=_arrived(status),
        why=_why(status),
    )


def check_own(pod: Mapping[str, Any], roles: Iterable[str], role_label: str) -> None:
    """Look whether this very Pod can be a member at all: nothing else would ever tell that it cannot.

    Raises:
        SettingsError: it has no index, or no role of the gang.
    """
    meta, names = pod["metadata"], tuple(roles)
    if role_label and (role := (meta.get("labels") or {}).get(role_label)) not in names:
        found = "is not there" if role is None else f"is {role!r}"
        raise SettingsError(f"FB_ROLE_LABEL={role_label}: this Pod's label {found}; FB_ROLES names {', '.join(names)}")
    if _index(meta) is None:
        raise SettingsError(
            f"FB_SELECTOR: this Pod has no index: none of the labels {', '.join(INDEX_LABELS)}, and no number at the "
            f"end of its name, {meta['name']}; it is for Indexed Jobs, JobSets, StatefulSets and LeaderWorkerSets"
        )


def gang_of(peers: Iterable[Peer], roles: Mapping[str, int], namespace: str, *, arrived: bool) -> Gang:
    """The gang of these Pods; the generation is left 0.

    Args:
        peers: all members, in any order; of two for one index the younger counts.
        roles: how many Tasks each role has.
        namespace: where the Pods are.
        arrived: whether a Task must have arrived (its barrier runs), not only have an address.
    """
    newest: dict[tuple[str, int], Peer] = {}
    for peer in sorted(peers, key=lambda each: (each.created, each.uid)):
        newest[peer.role, peer.index] = peer
    members: list[Role] = []
    missing: list[Missing] = []
    for role, number in roles.items():
        tasks = []
        for index in range(number):
            found = newest.get((role, index))
            if found and found.ip and (found.arrived or not arrived):
                tasks.append(Task(index, found.ip, found.uid[:8], 0, found.node, found.host_ip, found.name))
            else:
                missing.append(Missing(f"{role}-{index}", found.why if found else "has no Pod yet"))
        members.append(Role(role, tuple(tasks)))
    total = sum(roles.values())
    complete = not missing and total > 0
    return Gang(
        namespace=namespace,
        framework="",
        uid="",
        attempt_id=0,
        attempt_instance_uid="",
        generation=0,
        ready=total - len(missing),
        total=total,
        complete=complete,
        waiting_for=tuple(missing[:MISSING_SHOWN]),
        roles=tuple(members) if complete else (),
    )


def _index(meta: Mapping[str, Any]) -> int | None:
    """The index that the Pod's controller gave it, or the ordinal at the end of its name."""
    for source in (meta.get("labels") or {}, meta.get("annotations") or {}):
        for name in INDEX_LABELS:
            if re.fullmatch(r"[0-9]{1,9}", str(source.get(name, ""))):
                return int(source[name])
    ordinal = re.search(r"-([0-9]{1,9})$", str(meta["name"]))
    return int(ordinal[1]) if ordinal else None


def _arrived(status: Mapping[str, Any]) -> bool:
    for container in status.get("initContainerStatuses") or ():
        if container.get("name") == BARRIER_CONTAINER:
            state = container.get("state") or {}
            return bool(state.get("running")) or (state.get("terminated") or {}).get("exitCode") == 0
    return False


def _why(status: Mapping[str, Any]) -> str:
    """`Pending: Unschedulable: 0/3 nodes are available` or `Pending: ImagePullBackOff: ...`, for a person."""
    parts = [str(status.get("phase") or "Pending")]
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            parts += [str(condition.get(key)) for key in ("reason", "message") if condition.get(key)]
    for container in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") and waiting["reason"] not in {"PodInitializing", "ContainerCreating"}:
            parts += [str(waiting[key]) for key in ("reason", "message") if waiting.get(key)]
            break
    return one_line(": ".join(parts), 200)
