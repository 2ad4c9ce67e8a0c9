"""The Pods that a Framework will have, and objects of any kind with the barrier in their Pod templates; no cluster.

The controller's own rule makes the Pod of a Framework (`frameworkcontroller.core.pods.template`), the injector's the
barrier (`frameworkinjector.offline.render`). What only a cluster knows stays a word in capitals.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from frameworkclient.errors import ArgumentError, ManifestError
from frameworkcontroller.core.pods.template import PodTemplate, RoleAttempt, TemplateError
from frameworkinjector import flags
from frameworkinjector.errors import InjectorError
from frameworkinjector.offline.documents import RenderError, objects_in
from frameworkinjector.offline.render import rendered
from frameworkinjector.review.reasons import RefusalError


def pods_of(
    manifest: Mapping[str, Any], namespace: str, *, all_tasks: bool = False
) -> Iterator[tuple[str, dict[str, Any], list[str]]]:
    """Yield the first Task of each role of a Framework without errors of `lint`, or all, with its Pod and its warnings.

    It would be created in this namespace, if it does not name one itself, and the injector has its default settings.

    Raises:
        ManifestError: A template cannot become a Pod, or the injector would refuse it.
    """
    name = str(manifest["metadata"]["name"])
    where = str(manifest["metadata"].get("namespace") or namespace)
    config, env_files = flags.offline(())
    for role in manifest["spec"].get("taskRoles") or ():
        attempt = RoleAttempt(where, name, "FRAMEWORK-UID", 0, "CONFIGMAP-UID", role["name"], "TASKROLE-UID")
        try:
            template = PodTemplate(msgspec.json.encode(role["task"]["pod"]), attempt)
            number = role.get("taskNumber") or 0
            for index in range(number if all_tasks else min(number, 1)):
                pod = msgspec.json.decode(template.render(index, "TASK-UID", 0))
                result, found = rendered(pod, config, env_files)
                warnings = [text for one in found for text in one.warnings]
                yield f"{role['name']}-{index}", {"apiVersion": "v1", "kind": "Pod"} | result, warnings
        except (TemplateError, RefusalError, RenderError) as error:
            raise ManifestError(f"spec.taskRoles[{role['name']}].task.pod: {error}") from error


def injected(
    documents: Iterable[tuple[str, Any]], namespace: str, arguments: Sequence[str]
) -> tuple[list[dict[str, Any]], list[str], list[str]]:
    """Inject the Pods and the Pod templates of documents of any kind, of which each comes with where it stands.

    Each item of a List becomes an object of its own. Objects would be created in this namespace, if they do not name
    one themselves. The arguments are flags of the injector for the barrier and the cluster, such as
    `--preset-dir=presets`. The result can be applied to a cluster without the injector: the Pods become the same.

    Returns:
        The objects as they would be, in their order, also those without a Pod; a note for each Pod that was read and
        for each object without one; a sentence for each object with a Pod that the injector would refuse.

    Raises:
        ArgumentError: A flag, or a preset that it names, is wrong.
        ManifestError: An object cannot be read, or there is no Pod in any; the message names the field.
    """
    try:
        config, env_files = flags.offline(arguments)
    except InjectorError as error:
        raise ArgumentError(f"--injector-arg: {error}") from error
    objects: list[dict[str, Any]] = []
    notes: list[str] = []
    refusals: list[str] = []
    pods = 0
    for place, one in _objects(documents):
        try:
            result, found = rendered(one, config, env_files, namespace)
        except RefusalError as error:
            refusals.append(f"{', '.join(filter(None, (place, error.where)))}: refused: {error}")
            continue
        except RenderError as error:
            raise ManifestError(f"{place}: {error}") from error
        objects.append(result)
        pods += len(found)
        for pod in found:
            where = ", ".join(filter(None, (place, pod.where)))
            notes += [f"{where}: {text}" for text in (pod.verdict.sentence, *pod.warnings)]
        if not found:
            notes.append(f"{place} holds no Pod and stays as it is.")
    if not pods and not refusals:
        raise ManifestError("there is no Pod to render: no object has spec.containers or a Pod template")
    return objects, notes, refusals


def _objects(documents: Iterable[tuple[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    found = []
    for where, document in documents:
        try:
            found += [(f"{place}, {_title(one)}", one) for place, one in objects_in(document, where)]
        except RenderError as error:
            raise ManifestError(str(error)) from error
        except RecursionError as error:
            raise ManifestError(f"{where}: its Lists are nested too deeply") from error
    return found


def _title(document: dict[str, Any]) -> str:
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return f"{document.get('kind', 'object')}{f' {name}' if name else ''}"
