"""From a spec to the podSets of its Workload: one for each TaskRole, with what counts for quota and placement.

Of a Pod template only that travels: environment, commands and volumes may be a mebibyte and decide nothing. A podSet is
marked with a digest of it (`SHAPE`), by which a Workload is known to be for another spec.
"""

import hashlib
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field
from msgspec.structs import replace

from frameworkcontroller.api import names
from frameworkcontroller.api.spec import FrameworkSpec, TaskRoleSpec
from frameworkcontroller.api.workload import SHAPE
from frameworkcontroller.core.pods.template import TemplateError, container_count

MAX_POD_SETS: Final = 18
"""Of a Workload (source: Kueue 0.19, its CRD): so its templates have fewer containers than a Framework may have."""
MAX_BYTES: Final = 256 * 1024
"""Of all podSets of a Framework, as JSON; a usual one has some hundred bytes."""
_TOPOLOGY: Final = "kueue.x-k8s.io/podset-"


class _Asked(Struct, frozen=True):
    """What the annotations of a Pod template ask for."""

    required: str | None = field(default=None, name=f"{_TOPOLOGY}required-topology")
    preferred: str | None = field(default=None, name=f"{_TOPOLOGY}preferred-topology")
    unconstrained: str | None = field(default=None, name=f"{_TOPOLOGY}unconstrained-topology")
    slices: str | None = field(default=None, name=f"{_TOPOLOGY}slice-required-topology")
    slice_size: str | None = field(default=None, name=f"{_TOPOLOGY}slice-size")
    group: str | None = field(default=None, name=f"{_TOPOLOGY}group-name")


class _Meta(Struct, frozen=True):
    annotations: _Asked | None = None


class _Container(Struct, frozen=True, rename="camel"):
    """Each field as it is written, or not at all."""

    image: Raw | UnsetType = UNSET
    name: Raw | UnsetType = UNSET
    resources: Raw | UnsetType = UNSET
    restart_policy: Raw | UnsetType = UNSET


class _Spec(Struct, frozen=True, rename="camel", omit_defaults=True):
    affinity: Raw | UnsetType = UNSET
    containers: tuple[_Container, ...] | None = None
    init_containers: tuple[_Container, ...] | None = None
    node_selector: Raw | UnsetType = UNSET
    overhead: Raw | UnsetType = UNSET
    priority_class_name: str | None = None
    resource_claims: Raw | UnsetType = UNSET
    resources: Raw | UnsetType = UNSET
    runtime_class_name: Raw | UnsetType = UNSET
    scheduler_name: Raw | UnsetType = UNSET
    tolerations: Raw | UnsetType = UNSET


class _Pod(Struct, frozen=True):
    """What travels of a Pod template; all else costs nothing, whatever there is of it."""

    metadata: _Meta | None = None
    spec: _Spec | None = None


_POD: Final = msgspec.json.Decoder(_Pod)


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
        TemplateError: there are too many TaskRoles, a Pod template cannot be read, or there is too much in them; the
            message names the field.
    """
    if (number := len(spec.by_name)) > MAX_POD_SETS:
        why = f"a Workload of Kueue has a podSet for each TaskRole and at most {MAX_POD_SETS}, found {number} TaskRoles"
        raise TemplateError(f"spec.taskRoles: {why}: use fewer, or several Frameworks")
    found, size = [], 0
    for role in spec.by_name.values():
        found.append(_pod_set(role))
        size += len(found[-1].document)
        if size > MAX_BYTES:
            reason = "requests, affinity and other rules of placement are too much for a Workload"
            raise TemplateError(f"spec.taskRoles[{role.name}].task.pod: {reason}, {MAX_BYTES} bytes in all")
    return tuple(found)


def _pod_set(role: TaskRoleSpec) -> WantedPodSet:
    where = f"spec.taskRoles[{role.name}].task.pod"
    try:
        container_count(role.task.pod)
        pod = _POD.decode(role.task.pod)
    except (msgspec.ValidationError, RecursionError, TemplateError) as error:
        raise TemplateError(f"{where}: {error}") from error
    spec, asked = pod.spec or _Spec(), (pod.metadata and pod.metadata.annotations) or _Asked()
    topology = _topology(asked, where)
    # Admission checks make templates of Pods, which have images; quota is for any.
    shaped = replace(
        spec, containers=_without_images(spec.containers), init_containers=_without_images(spec.init_containers)
    )
    shape = hashlib.blake2b(msgspec.json.encode([shaped, topology]), digest_size=8).hexdigest()
    document = {
        "name": role.name,
        "count": role.task_number,
        "topologyRequest": topology,
        "template": {"metadata": {"annotations": {SHAPE: shape}}, "spec": spec},
    }
    made = msgspec.json.encode(document)
    return WantedPodSet(role.name, role.task_number, shape, made, spec.priority_class_name or "")


def _without_images(containers: tuple[_Container, ...] | None) -> tuple[_Container, ...]:
    return tuple(replace(one, image=UNSET) for one in containers or ())


def _topology(asked: _Asked, where: str) -> dict[str, Any]:
    """Return what the annotations of a Pod template ask for; a Task's index is its rank."""
    found: dict[str, Any] = {"podIndexLabel": names.TASK_INDEX}
    if asked.required is not None:
        found["required"] = asked.required
    elif asked.preferred is not None:
        found["preferred"] = asked.preferred
    elif asked.unconstrained is not None:
        found["unconstrained"] = asked.unconstrained.lower() == "true"
    if asked.slices is not None and (size := asked.slice_size) is not None:
        if not (size.isascii() and size.isdecimal() and len(size) < 10):
            key = f"{where}.metadata.annotations[{_TOPOLOGY}slice-size]"
            raise TemplateError(f"{key} must be a number of Pods, found {size[:64]!r}")
        found |= {"podSetSliceRequiredTopology": asked.slices, "podSetSliceSize": int(size)}
    return found if asked.group is None else found | {"podSetGroupName": asked.group}
