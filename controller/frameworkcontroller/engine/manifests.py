"""The bodies of the objects that the controller writes beside Pods."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from frameworkcontroller.api import names
from frameworkcontroller.cluster.rest import resource_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from frameworkcontroller.core.effects import CreateConfigMap, WriteRoster


@dataclass(frozen=True)
class Subject:
    """The Framework instance that an effect is for."""

    namespace: str
    name: str
    uid: str

    @property
    def path(self) -> str:
        """Where the API server has it."""
        return resource_path(names.API_VERSION, names.PLURAL, namespace=self.namespace, name=self.name)

    def owner(self, *, controller: bool) -> dict[str, Any]:
        """The reference from its dependents."""
        return {
            "apiVersion": names.API_VERSION,
            "kind": names.KIND,
            "name": self.name,
            "uid": self.uid,
            "controller": controller,
            "blockOwnerDeletion": True,
        }


def status_update(subject: Subject, resource_version: str, status: bytes) -> bytes:
    """The body of a status replacement: the server takes nothing but the status from it."""
    return msgspec.json.encode(
        {
            "apiVersion": names.API_VERSION,
            "kind": names.KIND,
            "metadata": {
                "namespace": subject.namespace,
                "name": subject.name,
                "uid": subject.uid,
                "resourceVersion": resource_version,
            },
            "status": msgspec.Raw(status),
        }
    )


def config_map(subject: Subject, effect: CreateConfigMap) -> bytes:
    """The ConfigMap that stands for a Framework attempt; deleting it deletes its Pods first."""
    name = names.config_map_name(subject.name)
    return msgspec.json.encode(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "namespace": subject.namespace,
                "name": name,
                "labels": {names.FRAMEWORK_NAME: subject.name},
                "annotations": {
                    names.FRAMEWORK_NAMESPACE: subject.namespace,
                    names.FRAMEWORK_NAME: subject.name,
                    names.CONFIGMAP_NAME: name,
                    names.FRAMEWORK_UID: subject.uid,
                    names.FRAMEWORK_ATTEMPT_ID: str(effect.attempt_id),
                },
                "finalizers": [names.FOREGROUND_FINALIZER],
                "ownerReferences": [subject.owner(controller=True)],
            },
            "data": {names.ROSTER_KEY: effect.roster.decode()},
        }
    )


def roster_patch(effect: WriteRoster, packed: bytes | None) -> bytes:
    """A merge patch that replaces the roster, plain or gzipped; the UID is a precondition."""
    return msgspec.json.encode(
        {
            "metadata": {"uid": effect.config_map_uid, "annotations": {names.ROSTER_ANNOTATION: effect.annotation}},
            "data": {names.ROSTER_KEY: effect.document.decode() if packed is None else None},
            "binaryData": {names.ROSTER_GZIP_KEY: None if packed is None else b64encode(packed).decode()},
        }
    )


def roster_access(subject: Subject, service_accounts: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Role and RoleBinding by which the Framework's Pods may read its roster and nothing else: (plural, body)."""
    group = "rbac.authorization.k8s.io"
    metadata = {
        "namespace": subject.namespace,
        "name": names.roster_access_name(subject.name),
        "labels": {names.FRAMEWORK_NAME: subject.name},
        "ownerReferences": [subject.owner(controller=True)],
    }
    yield (
        "roles",
        {
            "apiVersion": f"{group}/v1",
            "kind": "Role",
            "metadata": metadata,
            "rules": [
                {
                    "apiGroups": [""],
                    "resources": ["configmaps"],
                    "resourceNames": [names.config_map_name(subject.name)],
                    "verbs": ["get", "watch"],
                }
            ],
        },
    )
    yield (
        "rolebindings",
        {
            "apiVersion": f"{group}/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": group, "kind": "Role", "name": metadata["name"]},
            "subjects": [
                {"kind": "ServiceAccount", "name": account, "namespace": subject.namespace}
                for account in service_accounts
            ],
        },
    )
