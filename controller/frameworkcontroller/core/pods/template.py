"""From a role's Pod template to the Pods of its Tasks (docs/reference/framework-api.md, section 4).

A template is prepared once per Framework attempt and role: completed with owner, labels, annotations and environment,
and cut where a Task's own values go. A Task's Pod is then a join of bytes. What nobody needs here stays as it came.
"""

import re
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from msgspec import Raw

from frameworkcontroller import __version__
from frameworkcontroller.api import names
from frameworkcontroller.core.pods.avoidance import avoid

MAX_POD_BYTES: Final = 3 * 1024 * 1024
"""The API server takes no larger request (source: Kubernetes, `MaxRequestBodyBytes` of its generic server)."""
MAX_CONTAINERS_OF_POD: Final = 256
"""`maxContainersOfPod`: init and ephemeral ones included."""


class TemplateError(ValueError):
    """The template is not valid for a Pod; the message names the field."""


@dataclass(frozen=True)
class RoleAttempt:
    """One TaskRole in one Framework attempt: what its Pods have in common."""

    namespace: str
    framework: str
    framework_uid: str
    framework_attempt_id: int
    config_map_uid: str
    role: str
    role_uid: str
    additions: bytes = b""
    """What a queue or a scheduler adds to the Pods, as JSON; what says the same is not twice there."""
    avoided: tuple[str, ...] = ()
    """Nodes to which they are not to go."""

    @property
    def values(self) -> dict[str, str]:
        """The values by the names of the Pods' annotations and variables."""
        return {
            names.FRAMEWORK_NAMESPACE: self.namespace,
            names.FRAMEWORK_NAME: self.framework,
            names.TASKROLE_NAME: self.role,
            names.CONFIGMAP_NAME: names.config_map_name(self.framework),
            names.FRAMEWORK_UID: self.framework_uid,
            names.FRAMEWORK_ATTEMPT_ID: str(self.framework_attempt_id),
            names.FRAMEWORK_ATTEMPT_INSTANCE_UID: names.attempt_instance_uid(
                self.framework_attempt_id, self.config_map_uid
            ),
            names.CONFIGMAP_UID: self.config_map_uid,
            names.TASKROLE_UID: self.role_uid,
        }


@dataclass(frozen=True)
class PodSource:
    """What the Pods of one role are made of; to make them is work for whoever performs their creation."""

    attempt: RoleAttempt
    template: Raw
    """As the user has written it; a copy, which keeps nothing else of the Framework."""
    size: int
    """Of a Pod, about, in bytes."""
    problem: str = ""
    """Why there can be none, "" for nothing that is known."""

    def prepare(self) -> "PodTemplate":
        """Return the prepared template.

        Raises:
            TemplateError: there can be no Pod of it.
        """
        if self.problem:
            raise TemplateError(self.problem)
        return PodTemplate(bytes(self.template), self.attempt)


class PodTemplate:
    """The prepared Pod template of one role.

    Its Pods are measured before they are built: a template of some hundred KiB with tens of thousands of placeholders
    asks for Pods of many MiB.

    Raises:
        TemplateError: the template is not valid for a Pod, or its Pods are larger than any that the API server takes.
    """

    def __init__(self, template: bytes, attempt: RoleAttempt) -> None:
        self.attempt = attempt
        # The user's {{FC_TASK_INDEX}} and {{FC_POD_NAME}} serve as marks as they are. The other marks contain the
        # Framework's UID, which no user knows when writing the template.
        marks = {name: f"{{{{{name}}}}}" for name in (names.TASK_INDEX, names.POD_NAME)}
        marks |= {name: f"{{{{{attempt.framework_uid}:{name}}}}}" for name in (names.TASK_UID, names.TASK_ATTEMPT_ID)}
        values = attempt.values | marks
        environment = msgspec.json.encode(_environment(values))[1:-1]
        try:
            size = len(template) + _growth(template, attempt)
            _check_size(size, attempt.role)
            for name in names.PLACEHOLDERS:
                # Names need no escaping in JSON, so they can replace text in the encoded template.
                template = template.replace(f"{{{{{name}}}}}".encode(), values[name].encode())
            _check_size(size + container_count(template) * len(environment), attempt.role)
            encoded = msgspec.json.encode(_completed(template, values, attempt, environment))
        except msgspec.ValidationError as error:
            where = str(error) if "`$" in str(error) else f"{error} - at `$.template`"
            raise TemplateError(_WRONG.sub(r"pod \3 must be an \1, not \2", where)) from error
        except RecursionError as error:
            raise TemplateError("pod template is nested too deeply") from error
        by_mark = {mark.encode(): name for name, mark in marks.items()}
        pieces = re.split(b"(" + b"|".join(re.escape(mark) for mark in by_mark) + b")", encoded)
        self._literals = pieces[::2]
        self._names = [by_mark[piece] for piece in pieces[1::2]]
        self.size = len(encoded) + max(0, _growth(encoded, attempt))
        """Of a Pod, about, in bytes."""

    def render(self, index: int, task_uid: str, task_attempt_id: int) -> bytes:
        """Return the JSON of one Task's Pod."""
        values = {
            names.TASK_INDEX: str(index).encode(),
            names.POD_NAME: names.pod_name(self.attempt.framework, self.attempt.role, index).encode(),
            names.TASK_UID: task_uid.encode(),
            names.TASK_ATTEMPT_ID: str(task_attempt_id).encode(),
        }
        parts = [self._literals[0]]
        for name, literal in zip(self._names, self._literals[1:], strict=True):
            parts += (values[name], literal)
        return b"".join(parts)


def _check_size(size: int, role: str) -> None:
    if size > MAX_POD_BYTES:
        raise TemplateError(
            f"each Pod of TaskRole {role} would have at least {size} bytes, and the API server takes no request above "
            f"{MAX_POD_BYTES}: use fewer containers, placeholders or data in its template"
        )


def _growth(template: bytes, attempt: RoleAttempt) -> int:
    """Return by how much the first Task's placeholders grow; those of others do by a few digits more."""
    values = attempt.values | {names.TASK_INDEX: "0"}
    values[names.POD_NAME] = names.pod_name(attempt.framework, attempt.role, 0)
    marks = {name: f"{{{{{name}}}}}".encode() for name in names.PLACEHOLDERS}
    return sum(template.count(mark) * (len(values[name]) - len(mark)) for name, mark in marks.items())


class _Any(msgspec.Struct, frozen=True, gc=False):
    """An object of any fields, of which nothing is kept."""


class _SpecShape(msgspec.Struct, frozen=True, rename="camel"):
    init_containers: list[_Any] | None = None
    containers: list[_Any] | None = None
    ephemeral_containers: list[_Any] | None = None


class _MetaShape(msgspec.Struct, frozen=True):
    annotations: _Any | None = None
    labels: _Any | None = None


class _Shape(msgspec.Struct, frozen=True):
    """What must hold of a template before more of it is decoded; a container takes some bytes here."""

    metadata: _MetaShape | None = None
    spec: _SpecShape | None = None


_SHAPE: Final = msgspec.json.Decoder(_Shape)
_FIELDS: Final = msgspec.json.Decoder(dict[str, Raw] | None)
_ENTRIES: Final = msgspec.json.Decoder(list[dict[str, Raw]] | None)
_WRONG: Final = re.compile(r"Expected `(\w+).*`, got `(.*)` - at `\$\.(.*)`")
_NULL: Final = Raw(b"null")
_EMPTY: Final = Raw(b'""')


def container_count(template: bytes | Raw) -> int:
    """Return how many containers a template has.

    Raises:
        msgspec.ValidationError: it is not valid for a Pod.
        TemplateError: it has too many.
    """
    spec = _SHAPE.decode(template).spec or _SpecShape()
    number = sum(len(one or ()) for one in (spec.init_containers, spec.containers, spec.ephemeral_containers))
    if number > MAX_CONTAINERS_OF_POD:
        raise TemplateError(
            f"pod spec has {number} containers, and may have {MAX_CONTAINERS_OF_POD} (maxContainersOfPod): use fewer"
        )
    return number


def _environment(values: dict[str, str]) -> list[dict[str, Any]]:
    """Return the variables that each container gets before its own."""
    return [
        *({"name": name, "value": values[name]} for name in names.POD_ANNOTATIONS),
        {"name": names.POD_UID, "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
        {"name": names.TASK_ATTEMPT_INSTANCE_UID, "value": f"{values[names.TASK_ATTEMPT_ID]}_$({names.POD_UID})"},
    ]


def _completed(template: bytes, values: dict[str, str], attempt: RoleAttempt, environment: bytes) -> dict[str, Any]:
    """Return the template with what makes it a Pod of this Framework attempt; all else stays as it came."""
    pod: dict[str, Any] = _FIELDS.decode(template)
    metadata, spec = _fields(pod, "metadata"), _fields(pod, "spec")
    metadata.pop("generateName", None)
    if attempt.additions:
        _add(metadata, spec, attempt.additions)
    not_avoided = avoid(spec, attempt.avoided) if attempt.avoided else ""
    owner = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": values[names.CONFIGMAP_NAME],
        "uid": attempt.config_map_uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    labels = _fields(metadata, "labels")
    # With it, the caches would not show the Pod.
    labels.pop(names.RETAINED_LABEL, None)
    metadata |= {
        "name": values[names.POD_NAME],
        "namespace": attempt.namespace,
        "ownerReferences": _joined(metadata, "ownerReferences", "metadata", after=msgspec.json.encode(owner)),
        "annotations": _fields(metadata, "annotations")
        | {name: values[name] for name in names.POD_ANNOTATIONS}
        | {names.CONTROLLER_VERSION: __version__}
        | ({names.NOT_AVOIDED: not_avoided} if not_avoided else {}),
        "labels": labels | {name: values[name] for name in names.POD_LABELS},
    }
    for kind in ("initContainers", "containers"):
        containers = _ENTRIES.decode(spec.get(kind, _NULL))
        for number, container in enumerate(containers or ()):
            container["env"] = _joined(container, "env", f"spec.{kind}[{number}]", before=environment)
            if container.get("terminationMessagePolicy", _NULL) in (_NULL, _EMPTY):
                container["terminationMessagePolicy"] = "FallbackToLogsOnError"
        if containers is not None:
            spec[kind] = containers
    return pod | {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _add(metadata: dict[str, Any], spec: dict[str, Any], additions: bytes) -> None:
    """Add what a queue or a scheduler gives the Pods."""
    more = _FIELDS.decode(additions) or {}
    for parent, key in ((metadata, "labels"), (metadata, "annotations"), (spec, "nodeSelector")):
        if key in more:
            parent[key] = Raw(msgspec.json.encode(_fields(parent, key) | _fields(more, key)))
    for key in ("tolerations", "schedulingGates"):
        if key in more:
            spec[key] = _joined(spec, key, "spec", after=bytes(more[key])[1:-1])
    spec |= {key: more[key] for key in ("schedulingGroup",) if key in more}
    if "schedulerName" in more and spec.get("schedulerName", _NULL) in (_NULL, _EMPTY):
        spec["schedulerName"] = more["schedulerName"]


def _fields(parent: dict[str, Any], key: str) -> dict[str, Any]:
    """Return the object at `key`, of which each field is as it came; an empty one if it is absent or null."""
    fields: dict[str, Any] = _FIELDS.decode(parent.get(key, _NULL)) or {}
    return fields


def _joined(parent: dict[str, Any], key: str, where: str, *, before: bytes = b"", after: bytes = b"") -> Raw:
    """Return the array at `key`, which may be absent or null, between other entries."""
    inner = bytes(parent.get(key, _NULL)).strip()
    if inner != b"null" and not inner.startswith(b"["):
        raise TemplateError(f"pod {where}.{key} must be an array")
    own = b"" if inner == b"null" else inner[1:-1].strip()
    return Raw(b"[" + b",".join(filter(None, (before, own, after))) + b"]")
