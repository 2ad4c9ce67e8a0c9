"""What an admission adds to the Pods of each TaskRole: by its flavors, by admission checks, and for chosen nodes."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from frameworkcontroller.api.spec import FrameworkSpec
from frameworkcontroller.api.workload import (
    POD_SET_LABEL,
    TOPOLOGY_GATE,
    WORKLOAD_ANNOTATION,
    Admission,
    Flavor,
    PodSetAssignment,
    Toleration,
    Workload,
)

_UNCONSTRAINED: Final = "kueue.x-k8s.io/podset-unconstrained-topology"
_TOPOLOGIES: Final = (
    _UNCONSTRAINED,
    "kueue.x-k8s.io/podset-required-topology",
    "kueue.x-k8s.io/podset-preferred-topology",
)
_MERGED: Final = ("labels", "annotations", "nodeSelector")
"""Fields of texts by key, which may contradict each other."""


class AdmissionError(ValueError):
    """The Pods cannot have what the admission says; the message names the field. Another try says the same."""


class UnknownFlavorError(ValueError):
    """A flavor is not known (yet); the message names it."""


class _Meta(Struct, frozen=True):
    labels: Raw = Raw(b"null")
    annotations: Raw = Raw(b"null")


class _Spec(Struct, frozen=True, rename="camel"):
    node_selector: Raw = Raw(b"null")
    tolerations: Raw = Raw(b"null")


class _Template(Struct, frozen=True):
    metadata: _Meta | None = None
    spec: _Spec | None = None


_TEXTS: Final = msgspec.json.Decoder(dict[str, str] | None)
_TOLERATIONS: Final = msgspec.json.Decoder(tuple[Toleration, ...] | None)
_TEMPLATE: Final = msgspec.json.Decoder(_Template)


def additions_of(workload: Workload, spec: FrameworkSpec, flavor: Callable[[str], Flavor | None]) -> dict[str, bytes]:
    """Return what is added to the Pods of each role, as JSON; to what a template has alike nothing is added.

    Raises:
        AdmissionError: a label, annotation or node selector contradicts another one.
        UnknownFlavorError: a flavor is not known.
        msgspec.ValidationError: a Pod template cannot be read.
    """
    admission = workload.status.admission or Admission()
    return {
        one.name: msgspec.json.encode(_additions(workload, one, spec.task_of(one.name).pod, flavor))
        for one in admission.pod_set_assignments
    }


def _additions(
    workload: Workload, assignment: PodSetAssignment, template: Raw, flavor: Callable[[str], Flavor | None]
) -> dict[str, Any]:
    found = _TEMPLATE.decode(template)
    metadata, spec = found.metadata or _Meta(), found.spec or _Spec()
    made: dict[str, Any] = {
        "labels": {POD_SET_LABEL: assignment.name},
        "annotations": {WORKLOAD_ANNOTATION: workload.metadata.name},
        "nodeSelector": {},
        "schedulingGates": [] if assignment.topology_assignment is None else [{"name": TOPOLOGY_GATE}],
    }
    if made["schedulingGates"] and not any(key in _texts(metadata.annotations, _TOPOLOGIES) for key in _TOPOLOGIES):
        made["annotations"][_UNCONSTRAINED] = "true"
    tolerations: list[Toleration] = []
    for name in dict.fromkeys(assignment.flavors.values()):
        if (one := flavor(name)) is None:
            raise UnknownFlavorError(f"ResourceFlavor {name} is not known")
        # As Kueue's own jobs do: of two flavors that say different things the later one counts.
        made["nodeSelector"].update(one.spec.node_labels)
        tolerations += one.spec.tolerations
    for check in workload.status.admission_checks:
        for update in check.pod_set_updates or ():
            if update.name == assignment.name:
                more = msgspec.to_builtins(update)
                for key in _MERGED:
                    _merge(made[key], more[key], f"admission check {check.name}, TaskRole {update.name}: {key}")
                tolerations += update.tolerations or ()
    theirs = (_TOLERATIONS.decode(spec.tolerations) or ()) if tolerations else ()
    made["tolerations"] = [one for one in dict.fromkeys(tolerations) if one not in theirs]
    for key, theirs in zip(_MERGED, (metadata.labels, metadata.annotations, spec.node_selector), strict=True):
        ours = made[key]
        _merge(dict(ours), _texts(theirs, ours), f"Pod template of TaskRole {assignment.name}: {key}")
    return {key: value for key, value in made.items() if value}


def _texts(written: Raw, keys: Iterable[str]) -> dict[str, str]:
    """Return the texts of a template if any of these keys is there: to decode a mebibyte of others takes 25 ms."""
    text = bytes(written)
    return (_TEXTS.decode(written) or {}) if any(key.encode() in text for key in keys) else {}


def _merge(ours: dict[str, str], more: Mapping[str, str] | None, where: str) -> None:
    for key, value in (more or {}).items():
        if ours.setdefault(key, value) != value:
            raise AdmissionError(f"{where}[{key}] is {value!r}, and the admission says {ours[key]!r}")
