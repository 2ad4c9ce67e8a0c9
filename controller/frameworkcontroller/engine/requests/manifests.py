"""The bodies of the objects that the controller writes, other than Pods."""

from base64 import b64encode
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from frameworkcontroller.api import names
from frameworkcontroller.api.pod_group import PLURAL
from frameworkcontroller.api.workload import QUEUE_LABEL, WORKLOADS
from frameworkcontroller.core import effects
from frameworkcontroller.core.effects import GROUP, WORKLOAD, Owner, Subject

COMPANIONS: Final = {WORKLOAD: ("Workload", WORKLOADS), GROUP: ("PodGroup", PLURAL)}
"""Kind and plural of objects beside the ConfigMap, by the key of their effects."""


def _owned_by(*owners: Owner, controller: bool = True) -> list[dict[str, Any]]:
    controls = {"controller": controller, "blockOwnerDeletion": controller}
    return [
        {"apiVersion": one.api_version, "kind": one.kind, "name": one.name, "uid": one.uid} | controls for one in owners
    ]


def _named(subject: Subject, name: str, *owners: Owner) -> dict[str, Any]:
    """Return the metadata of an object of the Framework, which has its label."""
    return {
        "namespace": subject.namespace,
        "name": name,
        "labels": {names.FRAMEWORK_NAME: subject.name},
        "ownerReferences": _owned_by(*owners),
    }


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


def finalizers(subject: Subject, effect: effects.SetFinalizers) -> bytes:
    """Return a merge patch of the finalizers, for this version of the Framework alone."""
    version = {"uid": subject.uid, "resourceVersion": effect.resource_version}
    return msgspec.json.encode({"metadata": version | {"finalizers": msgspec.Raw(effect.finalizers)}})


def _config_map_owner(subject: Subject, uid: str) -> Owner:
    return Owner("v1", "ConfigMap", names.config_map_name(subject.name), uid)


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


def config_map(subject: Subject, effect: effects.CreateConfigMap) -> bytes:
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


def companion(subject: Subject, effect: effects.CreateCompanion, priority: Mapping[str, Any]) -> bytes:
    """Return a Workload of a Framework, or a group of an attempt, whose end does not wait for the group."""
    is_group = bool(effect.config_map_uid)
    owner = _config_map_owner(subject, effect.config_map_uid) if is_group else subject.object
    metadata = _named(subject, effect.name, owner)
    metadata["ownerReferences"][0]["blockOwnerDeletion"] = not is_group
    head = {"apiVersion": effect.api_version, "kind": COMPANIONS[effect.key][0]}
    return msgspec.json.encode(head | {"metadata": metadata, "spec": {**effect.spec, **priority}})


def companion_patch(effect: effects.PatchCompanion) -> bytes:
    """Return a merge patch; the UID is a precondition, and so is the version of which it is made, if there is one."""
    version = {"resourceVersion": effect.resource_version} if effect.resource_version else {}
    return msgspec.json.encode({"metadata": {"uid": effect.uid, **version}, **effect.patch})


def config_map_patch(subject: Subject, effect: effects.LabelConfigMap) -> bytes:
    """Return a merge patch that sets what the metadata always says; the UID is a precondition."""
    return msgspec.json.encode({"metadata": _config_map_metadata(subject, effect.attempt_id) | {"uid": effect.uid}})


def retained_pod_patch(subject: Subject, effect: effects.RetainPod) -> bytes:
    """Return a merge patch that gives a Pod to the Framework, and hides it from the caches."""
    metadata = {
        "uid": effect.uid,
        "labels": {names.RETAINED_LABEL: "true"},
        "ownerReferences": _owned_by(subject.object),
    }
    return msgspec.json.encode({"metadata": metadata})


def roster_patch(subject: Subject, effect: effects.WriteRoster, packed: bytes | None) -> bytes:
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


def roster_access(subject: Subject, effect: effects.GrantRosterAccess) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the Role and RoleBinding by which the Framework's Pods may read its roster and nothing else, by resource.

    The ConfigMap of the attempt owns them, so that the garbage collector deletes them with it.
    """
    group = "rbac.authorization.k8s.io"
    name, owner = names.roster_access_name(subject.name), _config_map_owner(subject, effect.config_map_uid)
    metadata = _named(subject, name, owner) | {"labels": _config_map_metadata(subject, 0)["labels"]}
    rule = {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [owner.name], "verbs": ["get", "watch"]}
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
