"""Injects an object without a cluster: a Pod, or the Pod templates of what creates Pods.

`frameworkctl render` calls `rendered` with each object of a file. It promises the same decision and the same patch as a
review of the Pod that the object's controller would create. A template gets nothing that the controller adds by itself:
to apply the result gives the Pods that the webhook would make of the original.
"""

import copy
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from frameworkcontroller.api import names as fc
from frameworkinjector import names
from frameworkinjector.offline.documents import FoundPod, RenderError, pods_in
from frameworkinjector.review import patch
from frameworkinjector.review.config import Config, EnvFiles
from frameworkinjector.review.plan import Plan, decide
from frameworkinjector.review.pod import JSON, decode_pod
from frameworkinjector.review.reasons import Reason, RefusalError, Verdict

# What the controller gives each container of a Pod template of a Framework.
_OF_CONTROLLER: Final = frozenset({*fc.POD_ANNOTATIONS, fc.POD_UID, fc.TASK_ATTEMPT_INSTANCE_UID})


@dataclass(frozen=True, slots=True)
class RenderedPod:
    """What became of the Pod or template at the path `where`, "" for the object itself; `warnings` are sentences."""

    where: str
    verdict: Verdict
    warnings: tuple[str, ...]


def rendered(
    document: JSON, config: Config, env_files: EnvFiles, namespace: str = "default"
) -> tuple[JSON, tuple[RenderedPod, ...]]:
    """Return a copy of an object with its Pods injected or left alone, and what became of each; none if it has none.

    It would be created in `namespace`, if it does not say so itself.

    Raises:
        RefusalError: A Pod would be refused; `where` names it.
        RenderError: The object cannot be read; the message names the field.
    """
    try:
        # By way of JSON, as kubectl does: aliases of YAML become copies.
        result: JSON = msgspec.json.decode(msgspec.json.encode(document))
    except (TypeError, ValueError, RecursionError) as error:
        raise RenderError(f"the object cannot be written as JSON: {error}") from error
    metadata = result.get("metadata")
    namespace = str((metadata.get("namespace") if isinstance(metadata, dict) else None) or namespace)
    return result, tuple(_inject(found, config, env_files) for found in pods_in(result, namespace))


def _inject(found: FoundPod, config: Config, env_files: EnvFiles) -> RenderedPod:
    try:
        pod = decode_pod(msgspec.json.encode(found.seen))
    except (msgspec.DecodeError, RecursionError) as error:
        raise RenderError(f"{f'{found.where}: ' if found.where else ''}the Pod is malformed: {error}") from error
    try:
        plan = decide(pod, config, env_files)
    except RefusalError as error:
        error.where = found.where
        raise
    if not isinstance(plan, Plan):
        return RenderedPod(found.where, plan, ())
    for operation in patch.operations(pod, plan):
        # The patch uses one value in several places, which must not become one object.
        _apply(found.seen, copy.deepcopy(operation))
    _take_over(found)
    return RenderedPod(found.where, Verdict(Reason.INJECTED), plan.warnings)


def _take_over(found: FoundPod) -> None:
    """Put what was added into the document, without what the object's controller will add."""
    spec, metadata = found.seen["spec"], found.holder.get("metadata") or {}
    if found.of_framework:
        barrier = spec["initContainers"][-1]
        barrier["env"] = [one for one in barrier["env"] if one["name"] not in _OF_CONTROLLER]
    annotations = metadata.get("annotations") or {}
    added = found.seen["metadata"]["annotations"]
    annotations |= {key: added[key] for key in (names.STATUS, names.READS) if key in added}
    metadata["annotations"] = annotations
    found.holder["metadata"], found.holder["spec"] = metadata, spec


def _apply(document: JSON, operation: JSON) -> None:
    """Apply one operation of `patch`: an `add` or a `replace` whose parent path exists."""
    *parents, last = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
    target: Any = document
    for part in parents:
        target = target[int(part)] if isinstance(target, list) else target[part]
    if isinstance(target, list):
        target.insert(len(target) if last == "-" else int(last), operation["value"])
    else:
        target[last] = operation["value"]
