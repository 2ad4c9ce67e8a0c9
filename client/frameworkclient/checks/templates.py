"""Objects of any kind with the barrier in their Pod templates, without a cluster.

The injector's own rules decide (`frameworkinjector.offline.render`), with its default settings or those that flags
give. The result can be applied to a cluster without the injector, where the Pods become the same.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from frameworkclient.errors import ArgumentError, ManifestError
from frameworkinjector import flags
from frameworkinjector.errors import InjectorError
from frameworkinjector.offline.documents import RenderError, objects_in
from frameworkinjector.offline.render import rendered
from frameworkinjector.review.reasons import RefusalError


@dataclass(frozen=True)
class Injected:
    """What became of the objects of some files."""

    objects: list[dict[str, Any]] = field(default_factory=list)
    """As they would be, in their order; those without a Pod stay as they are."""
    notes: list[str] = field(default_factory=list)
    """A sentence for each Pod that was read, and for each object without one."""
    refusals: list[str] = field(default_factory=list)
    """A sentence for each object with a Pod that the injector would refuse."""


def injected(documents: Iterable[tuple[str, Any]], namespace: str, arguments: Sequence[str]) -> Injected:
    """Inject the Pods and the Pod templates of documents, of which each comes with where it stands.

    Each item of a List becomes an object of its own. Objects would be created in this namespace, if they do not name
    one themselves. The arguments are flags of the injector for the barrier and the cluster, such as
    `--preset-dir=presets`.

    Raises:
        ArgumentError: A flag, or a preset that it names, is wrong.
        ManifestError: An object cannot be read, or there is no Pod in any; the message names the field.
    """
    try:
        config, env_files = flags.offline(arguments)
    except InjectorError as error:
        raise ArgumentError(f"--injector-arg: {error}") from error
    done = Injected()
    pods = 0
    for place, one in _objects(documents):
        try:
            result, found = rendered(one, config, env_files, namespace)
        except RefusalError as error:
            done.refusals.append(f"{', '.join(filter(None, (place, error.where)))}: refused: {error}")
            continue
        except RenderError as error:
            raise ManifestError(f"{place}: {error}") from error
        done.objects.append(result)
        pods += len(found)
        for pod in found:
            where = ", ".join(filter(None, (place, pod.where)))
            done.notes.extend(f"{where}: {text}" for text in (pod.verdict.sentence, *pod.warnings))
        if not found:
            done.notes.append(f"{place} holds no Pod and stays as it is.")
    if not pods and not done.refusals:
        raise ManifestError("there is no Pod to render: no object has spec.containers or a Pod template")
    return done


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
