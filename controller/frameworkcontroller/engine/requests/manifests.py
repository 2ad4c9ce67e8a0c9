"""The bodies of the objects that the controller writes, other than Pods."""

from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import msgspec

from frameworkcontroller.api import names
from frameworkcontroller.api.pod_group import KINDS
from frameworkcontroller.api.workload import KUEUE_API, QUEUE_LABEL
from frameworkcontroller.core.effects import (
    CreateConfigMap,
    CreateGroup,
    CreateWorkload,
    GrantRosterAccess,
    LabelConfigMap,
    Owner,
    PatchGroup,
    PatchWorkload,
    RetainPod,
    SetFinalizers,
    Subject,
    WriteRoster,
)


def _owned_by(*owners: Owner, controller: bool = True) -> list[dict[str, Any]]:
    controls = {"controller": controller, "blockOwnerDeletion": controller}
    return [
        {"apiVersion": one.api_version, "kind": one.kind, "name": one.name, "uid": one.uid} | controls for one in owners
    ]


def status_update(subject: Subject, resource_version: str, status: bytes) -> bytes:
    """Return the body of a status replacement; the server uses only the status and the preconditions."""
    metadata = {
        "namespace": subject.namespace,
        "name": subject.name,
        "uid": subject.uid,
        "resourceVersion": resource_version,
    }
    whole = {"apiVersion": names.API_VERSION, "kind": names.KIND, "metadata": metadata, "status": msgspec.Raw(status)}
    return msgspec.json.encode(whole)


def finalizers(subject: Subject, effect: SetFinalizers) -> bytes:
    """Return a merge patch of the finalizers, for this version of the Framework alone."""
    version = {"uid": subject.uid, "resourceVersion": effect.resource_version}
    return msgspec.json.encode({"metadata": version | {"finalizers": effect.finalizers}})


def _config_map_metadata(subject: Subject, attempt_id: int) -> dict[str, Any]:
    """Return what the metadata of the ConfigMap of an attempt always says."""
    if subject.gang:
        labels, owners = {names.GANG_LABEL: subject.object.kind}, _owned_by(*subject.gang, controller=False)
        return {"labels": labels, "annotations": {}, "ownerReferences": owners}
    return {
        "labels": {names.FRAMEWORK_NAME: subject.name},
        "annotations": {
            names.FRAMEWORK_NAMESPACE: subject.namespace,
            names.FRAMEWORK_NAME: subject.name,
            names.CONFIGMAP_NAME: names.config_map_name(subject.name),
            names.FRAMEWORK_UID: subject.uid,
            names.FRAMEWORK_ATTEMPT_ID: str(attempt_id),
        },
        "ownerReferences": _owned_by(subject.object),
    }


def config_map(subject: Subject, effect: CreateConfigMap) -> bytes:
    """Return the ConfigMap of a Framework attempt; its Pods are deleted before it."""
    metadata = _config_map_metadata(subject, effect.attempt_id) | {
        "namespace": subject.namespace,
        "name": names.config_map_name(subject.name),
    }
    if not subject.gang:
        metadata["finalizers"] = [names.FOREGROUND_FINALIZER]
    if effect.queue:
        # Kueue takes the Pods for those of a job that is queued by itself.
        metadata["labels"] |= {QUEUE_LABEL: effect.queue}
    data = {names.ROSTER_KEY: effect.roster.decode()}
    return msgspec.json.encode({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})


def workload(subject: Subject, effect: CreateWorkload, priority: tuple[dict[str, str] | None, int]) -> bytes:
    """Return the Workload of a Framework."""
    metadata = {
        "namespace": subject.namespace,
        "name": effect.name,
        "labels": {names.FRAMEWORK_NAME: subject.name},
        "ownerReferences": _owned_by(subject.object),
    }
    reference, value = priority
    spec = {"queueName": effect.queue, "priority": value, "podSets": msgspec.Raw(effect.pod_sets)}
    if reference is not None:
        spec["priorityClassRef"] = reference
    return msgspec.json.encode({"apiVersion": KUEUE_API, "kind": "Workload", "metadata": metadata, "spec": spec})


def group(subject: Subject, effect: CreateGroup) -> bytes:
    """Return a group of Pods of an attempt; it goes after them, and the attempt's end does not wait for it."""
    owner = Owner("v1", "ConfigMap", names.config_map_name(subject.name), effect.config_map_uid)
    metadata = {
        "namespace": subject.namespace,
        "name": effect.name,
        "labels": {names.FRAMEWORK_NAME: subject.name},
        "ownerReferences": [one | {"blockOwnerDeletion": False} for one in _owned_by(owner)],
    }
    api_version = KINDS[effect.scheduler].api_version
    document = {"apiVersion": api_version, "kind": "PodGroup", "metadata": metadata, "spec": msgspec.Raw(effect.spec)}
    return msgspec.json.encode(document)


def group_patch(effect: PatchGroup) -> bytes:
    """Return a merge patch of the spec; the UID is a precondition."""
    return msgspec.json.encode({"metadata": {"uid": effect.uid}, "spec": msgspec.Raw(effect.spec)})


def workload_patch(effect: PatchWorkload) -> bytes:
    """Return a merge patch of the status, for this version of the Workload alone."""
    metadata = {"uid": effect.uid, "resourceVersion": effect.resource_version}
    return msgspec.json.encode({"metadata": metadata, "status": msgspec.Raw(effect.status)})


def config_map_patch(subject: Subject, effect: LabelConfigMap) -> bytes:
    """Return a merge patch that sets what the metadata always says; the UID is a precondition."""
    return msgspec.json.encode({"metadata": _config_map_metadata(subject, effect.attempt_id) | {"uid": effect.uid}})


def retained_pod_patch(subject: Subject, effect: RetainPod) -> bytes:
    """Return a merge patch that gives a Pod to the Framework, and hides it from the caches."""
    metadata = {
        "uid": effect.uid,
        "labels": {names.RETAINED_LABEL: "true"},
        "ownerReferences": _owned_by(subject.object),
    }
    return msgspec.json.encode({"metadata": metadata})


def roster_patch(subject: Subject, effect: WriteRoster, packed: bytes | None) -> bytes:
    """Return a merge patch that replaces the roster, plain or gzipped; the UID is a precondition.

    It also sets what the controller has written beside the roster, in case somebody else has changed that.
    """
    metadata = _config_map_metadata(subject, effect.attempt_id)
    metadata["annotations"][names.ROSTER_ANNOTATION] = effect.annotation
    return msgspec.json.encode(
        {
            "metadata": metadata | {"uid": effect.config_map_uid},
            "data": {names.ROSTER_KEY: effect.document.decode() if packed is None else None},
            "binaryData": {names.ROSTER_GZIP_KEY: None if packed is None else b64encode(packed).decode()},
        }
    )


def roster_access(subject: Subject, effect: GrantRosterAccess) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the Role and RoleBinding by which the Framework's Pods may read its roster and nothing else, by resource.

    The ConfigMap of the attempt owns them, so that the garbage collector deletes them with it.
    """
    group = "rbac.authorization.k8s.io"
    name, config_map_name = names.roster_access_name(subject.name), names.config_map_name(subject.name)
    metadata = {
        "namespace": subject.namespace,
        "name": name,
        "labels": _config_map_metadata(subject, 0)["labels"],
        "ownerReferences": _owned_by(Owner("v1", "ConfigMap", config_map_name, effect.config_map_uid)),
    }
    rule = {
        "apiGroups": [""],
        "resources": ["configmaps"],
        "resourceNames": [config_map_name],
        "verbs": ["get", "watch"],
    }
    yield "roles", {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": metadata, "rules": [rule]}
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "RoleBinding",
        "metadata": metadata,
        "roleRef": {"apiGroup": group, "kind": "Role", "name": name},
        "subjects": [
            {"kind": "ServiceAccount", "name": account, "namespace": subject.namespace}
            for account in effect.service_accounts
        ],
    }
    yield "rolebindings", binding
