"""From a spec to the podSets of its Workload: one for each TaskRole, with what counts for quota and placement.

Of a Pod template only that travels: environment, commands and volumes may be a mebibyte and decide nothing. A podSet is
marked with a digest of it (`SHAPE`), by which a Workload is known to be for another spec.
"""

import hashlib
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from frameworkcontroller.api import names
from frameworkcontroller.api.spec import FrameworkSpec, TaskRoleSpec
from frameworkcontroller.api.workload import SHAPE, PodSet
from frameworkcontroller.core.pods.template import TemplateError, container_count

MAX_BYTES: Final = 256 * 1024
"""Of all podSets of a Framework, as JSON; a usual one has some hundred bytes."""
_POD_FIELDS: Final = (
    *("affinity", "nodeSelector", "overhead", "priorityClassName", "resourceClaims", "resources", "runtimeClassName"),
    *("schedulerName", "tolerations"),
)
_CONTAINER_FIELDS: Final = ("name", "resources", "restartPolicy")
_TOPOLOGY: Final = "kueue.x-k8s.io/podset-"
_FIELDS: Final = msgspec.json.Decoder(dict[str, Raw] | None)
_LIST: Final = msgspec.json.Decoder(list[dict[str, Raw]] | None)
_TEXTS: Final = msgspec.json.Decoder(dict[str, str] | None)
_NULL: Final = Raw(b"null")


class WantedPodSet(Struct, frozen=True):
    """One podSet as the spec asks for it."""

    name: str
    count: int
    shape: str
    document: bytes
    """As JSON."""
    priority_class: str = ""
    """Of its Pods."""


def wanted_pod_sets(spec: FrameworkSpec) -> tuple[WantedPodSet, ...]:
    """Return a podSet for each TaskRole.

    Raises:
        TemplateError: a Pod template cannot be read, or there is too much in them; the message names the field.
    """
    found, size = [], 0
    for role in spec.by_name.values():
        found.append(_pod_set(role))
        size += len(found[-1].document)
        if size > MAX_BYTES:
            reason = "requests, affinity and other rules of placement are too much for a Workload"
            raise TemplateError(f"spec.taskRoles[{role.name}].task.pod: {reason}, {MAX_BYTES} bytes in all")
    return tuple(found)


def _pod_set(role: TaskRoleSpec) -> WantedPodSet:
    try:
        container_count(role.task.pod)
        pod = _FIELDS.decode(role.task.pod) or {}
        template = _FIELDS.decode(pod.get("spec", _NULL)) or {}
        metadata = _FIELDS.decode(pod.get("metadata", _NULL)) or {}
        annotations = _TEXTS.decode(metadata.get("annotations", _NULL)) or {}
        kept: dict[str, Any] = {key: template[key] for key in _POD_FIELDS if key in template}
        images = {}
        for kind in ("initContainers", "containers"):
            containers = _LIST.decode(template.get(kind, _NULL)) or []
            kept[kind] = [{key: one[key] for key in _CONTAINER_FIELDS if key in one} for one in containers]
            images[kind] = [{"image": one["image"]} if "image" in one else {} for one in containers]
        priority_class = msgspec.json.decode(template.get("priorityClassName", _NULL), type=str | None) or ""
    except (msgspec.ValidationError, RecursionError, TemplateError) as error:
        raise TemplateError(f"spec.taskRoles[{role.name}].task.pod: {error}") from error
    topology = _topology(role.name, annotations)
    shape = hashlib.blake2b(msgspec.json.encode([kept, topology]), digest_size=8).hexdigest()
    for kind, ones in images.items():
        kept[kind] = [one | image for one, image in zip(kept[kind], ones, strict=True)]
    document = {
        "name": role.name,
        "count": role.task_number,
        "topologyRequest": topology,
        "template": {"metadata": {"annotations": {SHAPE: shape}}, "spec": kept},
    }
    return WantedPodSet(role.name, role.task_number, shape, msgspec.json.encode(document), priority_class)


def _topology(role: str, annotations: dict[str, str]) -> dict[str, Any]:
    """Return what the annotations of a Pod template ask for; a Task's index is its rank."""
    found: dict[str, Any] = {"podIndexLabel": names.TASK_INDEX}

    def asked(name: str) -> str | None:
        return annotations.get(_TOPOLOGY + name)

    if (required := asked("required-topology")) is not None:
        found["required"] = required
    elif (preferred := asked("preferred-topology")) is not None:
        found["preferred"] = preferred
    elif (unconstrained := asked("unconstrained-topology")) is not None:
        found["unconstrained"] = unconstrained.lower() == "true"
    slices, size = asked("slice-required-topology"), asked("slice-size")
    if slices is not None and size is not None:
        if not (size.isascii() and size.isdecimal() and len(size) < 10):
            where = f"spec.taskRoles[{role}].task.pod.metadata.annotations[{_TOPOLOGY}slice-size]"
            raise TemplateError(f"{where} must be a number of Pods, found {size[:64]!r}")
        found |= {"podSetSliceRequiredTopology": slices, "podSetSliceSize": int(size)}
    group = asked("group-name")
    return found if group is None else found | {"podSetGroupName": group}


def fits(pod_set: PodSet, wanted: WantedPodSet, needed: int, reclaimed: int) -> bool:
    """Report whether so many Pods, as the spec asks for them, have their place in what is left of a podSet."""
    return pod_set.shape == wanted.shape and needed <= pod_set.count - reclaimed
