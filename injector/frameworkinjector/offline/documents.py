"""Finds the Pods in a document, each as the controller of its kind would create it.

`render` calls `pods_in`, and the client `objects_in`. What the injector decides depends on labels, annotations and the
owner that a template does not have yet: `seen` is the Pod with them, `holder` the place in the document that the result
goes to.
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from frameworkcontroller.api import names as fc
from frameworkinjector.errors import InjectorError
from frameworkinjector.review.pod import JSON
from frameworkinjector.review.workload import JOB_UID, LWS_GROUP, LWS_NAME

# Where the Pod templates of a kind are; `[]` stands for each item of a list, `?` for a field that may be absent.
_TEMPLATES: Final = {
    "Pod": ("",),
    "PodTemplate": ("template",),
    "Job": ("spec.template",),
    "CronJob": ("spec.jobTemplate.spec.template",),
    "Deployment": ("spec.template",),
    "ReplicaSet": ("spec.template",),
    "ReplicationController": ("spec.template",),
    "StatefulSet": ("spec.template",),
    "DaemonSet": ("spec.template",),
    "JobSet": ("spec.replicatedJobs[].template.spec.template",),
    "TrainingRuntime": ("spec.template.spec.replicatedJobs[].template.spec.template",),
    "ClusterTrainingRuntime": ("spec.template.spec.replicatedJobs[].template.spec.template",),
    "LeaderWorkerSet": (
        "spec.leaderWorkerTemplate.leaderTemplate?",
        "spec.leaderWorkerTemplate.workerTemplate",
    ),
    fc.KIND: ("spec.taskRoles[].task.pod",),
}
# Kinds of other groups may have the same names, as Volcano's Job has.
_GROUPS: Final = {"", "apps", "batch", "jobset.x-k8s.io", "leaderworkerset.x-k8s.io", "trainer.kubeflow.org", fc.GROUP}
# Of a kind that is not known: where most kinds have their template.
_USUAL: Final = ("", "template", "spec.template")
# Each becomes one; a runtime of Kubeflow's Trainer for each TrainJob, whose name is not known here.
_JOBSETS: Final = frozenset({"JobSet", "TrainingRuntime", "ClusterTrainingRuntime"})
_OWNERS: Final = {"CronJob": "Job", "Deployment": "ReplicaSet", "LeaderWorkerSet": "StatefulSet"} | dict.fromkeys(
    _JOBSETS, "Job"
)
_SOME_UID: Final = "00000000-0000-0000-0000-000000000000"


class RenderError(InjectorError):
    """A document cannot be rendered; the message names the field."""


@dataclass(frozen=True, slots=True)
class FoundPod:
    """A Pod or template in a document (`holder`) at the path `where`, "" for the object itself.

    `seen` is the Pod as it would be created.
    """

    where: str
    holder: JSON
    seen: JSON
    of_framework: bool


def objects_in(document: Any, where: str = "") -> Iterator[tuple[str, JSON]]:
    """Yield each object of a document with its path: the object itself, or the items of a List.

    Raises:
        RenderError: The document is not an object, or `items` is not a list of objects.
    """
    if not isinstance(document, dict):
        raise RenderError(f"{where}{': ' if where else ''}the document is not a Kubernetes object")
    kind = document.get("kind")
    # Kinds that hold no objects may end like a list, too.
    if kind == "List" or (isinstance(kind, str) and kind.endswith("List") and "items" in document):
        items = document.get("items")
        for number, item in enumerate(_typed(items, list, f"{where}{', ' if where else ''}{kind}: items")):
            yield from objects_in(item, f"{where}{', ' if where else ''}{kind} items[{number}]")
    else:
        yield where, document


def pods_in(document: JSON, namespace: str) -> list[FoundPod]:
    """Return the Pods of an object that will be created in `namespace`; none if it is of a kind without any.

    Raises:
        RenderError: A field on the way to a template is missing or of a wrong type.
    """
    kind = document.get("kind")
    group = str(document.get("apiVersion") or "").rpartition("/")[0]
    if isinstance(kind, str) and kind in _TEMPLATES and group in _GROUPS:
        found = [place for path in _TEMPLATES[kind] for place in _at((document,), path, "")]
    else:
        kind = ""
        found = [place for path in _USUAL for place in _usual(document, path)][:1]
    return [_found_pod(namespace, kind, place) for place in found]


class _Place(NamedTuple):
    """Where a Pod or template is: its path, and the objects from the document to it, both included."""

    where: str
    objects: tuple[JSON, ...]


def _at(objects: tuple[Any, ...], path: str, where: str) -> Iterator[_Place]:
    value = _typed(objects[-1], dict, where or "the document")
    if not path:
        spec = f"{where}.spec" if where else "spec"
        _typed(_typed(value.get("spec"), dict, spec).get("containers"), list, f"{spec}.containers")
        yield _Place(where, objects)
        return
    head, _, rest = path.partition(".")
    name = head.rstrip("[]?")
    here = f"{where}.{name}" if where else name
    found = value.get(name)
    if found is None and head.endswith("?"):
        return
    if head.endswith("[]"):
        for number, item in enumerate(_typed(found, list, here)):
            yield from _at((*objects, item), rest, f"{here}[{number}]")
    else:
        yield from _at((*objects, found), rest, here)


def _usual(document: JSON, path: str) -> Iterator[_Place]:
    value: Any = document
    for name in filter(None, path.split(".")):
        value = value.get(name) if isinstance(value, dict) else None
    if isinstance(value, dict) and isinstance(value.get("spec"), dict) and "containers" in value["spec"]:
        yield _Place(path, (document, value))


def _typed(value: Any, wanted: type, where: str) -> Any:
    if value is None:
        raise RenderError(f"{where} is missing")
    if not isinstance(value, wanted):
        raise RenderError(f"{where} must be {'a list' if wanted is list else 'an object'}")
    return value


def _found_pod(namespace: str, kind: str, place: _Place) -> FoundPod:
    where, holder = place.where, place.objects[-1]
    seen = copy.deepcopy(holder)
    at = f"{where}.metadata" if where else "metadata"
    metadata = seen["metadata"] = _typed(seen.get("metadata") or {}, dict, at)
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    if kind == fc.KIND:
        labels, annotations = _of_framework(place, namespace, metadata)
    elif where:
        labels = _labels_of(kind, place.objects)
        owner = _OWNERS.get(kind, kind)
        metadata["ownerReferences"] = [{"kind": owner, "name": _name(place.objects[0]), "controller": True}]
        if owner not in {"Job", "ReplicaSet", "ReplicationController", "DaemonSet"}:
            # These controllers number their Pods; of an unknown kind nothing else is known.
            metadata["name"] = f"{_name(place.objects[0])}-0"
    for key, added in (("labels", labels), ("annotations", annotations)):
        if added:
            metadata[key] = _typed(metadata.get(key) or {}, dict, f"{at}.{key}") | added
    return FoundPod(where, holder, seen, of_framework=kind == fc.KIND)


def _labels_of(kind: str, objects: Sequence[JSON]) -> dict[str, str]:
    """Return the labels by which the kind's controller tells its Pods apart; `objects` are those of the `_Place`."""
    name = _name(objects[0])
    if kind == "LeaderWorkerSet":
        return {LWS_NAME: name, LWS_GROUP: "0", "leaderworkerset.sigs.k8s.io/worker-index": "0"}
    if kind == "StatefulSet":
        return {"apps.kubernetes.io/pod-index": "0"}
    if kind not in {"Job", "CronJob", *_JOBSETS}:
        return {}
    labels = {JOB_UID: _SOME_UID, "batch.kubernetes.io/job-name": name}
    default = None
    if kind in _JOBSETS:
        default = "Indexed"
        *_, replicated_job, _, _, _ = objects
        labels["jobset.sigs.k8s.io/jobset-name"] = name
        labels["jobset.sigs.k8s.io/replicatedjob-name"] = str(replicated_job.get("name"))
    *_, job_spec, _ = objects
    if job_spec.get("completionMode", default) == "Indexed":
        labels["batch.kubernetes.io/job-completion-index"] = "0"
    return labels


def _of_framework(place: _Place, namespace: str, metadata: JSON) -> tuple[dict[str, str], dict[str, str]]:
    """Return the labels and annotations that the controller adds; give the Pod a name, and the user's text the names.

    What it knows only when it creates the Pod stays a placeholder.
    """
    document, _, task_role, *_ = place.objects
    name, role = _name(document), task_role.get("name")
    if not name:
        raise RenderError("metadata.name is missing")
    if not isinstance(role, str) or not role:
        raise RenderError(f"{place.where.removesuffix('.task.pod')}.name is missing")
    known = {
        fc.FRAMEWORK_NAMESPACE: namespace,
        fc.FRAMEWORK_NAME: name,
        fc.TASKROLE_NAME: role,
        fc.CONFIGMAP_NAME: fc.config_map_name(name),
    }
    for key in ("labels", "annotations"):
        if isinstance(given := metadata.get(key), dict):
            metadata[key] = {entry: _filled_in(text, known) for entry, text in given.items()}
    metadata["name"] = fc.pod_name(name, role, 0)
    values = {each: known.get(each, f"{{{{{each}}}}}") for each in fc.POD_ANNOTATIONS}
    return {each: values[each] for each in fc.POD_LABELS}, values


def _filled_in(text: Any, known: Mapping[str, str]) -> Any:
    if isinstance(text, str):
        for placeholder, value in known.items():
            text = text.replace(f"{{{{{placeholder}}}}}", value)
    return text


def _name(document: JSON) -> str:
    metadata = document.get("metadata")
    return str((metadata.get("name") if isinstance(metadata, dict) else None) or "")
