"""The Pods that a Framework will have, without a cluster: placeholders filled, barrier injected.

The controller's own rule makes the Pod (`frameworkcontroller.core.pods.template`), the injector's the barrier
(`frameworkinjector.offline.render`) with its default settings. What only a cluster knows stays a word in capitals.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from frameworkclient.errors import ManifestError
from frameworkcontroller.core.pods.template import PodTemplate, RoleAttempt, TemplateError
from frameworkinjector import __version__
from frameworkinjector.offline.documents import RenderError
from frameworkinjector.offline.render import rendered
from frameworkinjector.review.config import Config, EnvFiles
from frameworkinjector.review.reasons import RefusalError


@dataclass(frozen=True)
class RenderedPod:
    """The Pod of one Task as it would be created, and the warnings of the injector."""

    task: str
    pod: dict[str, Any]
    warnings: tuple[str, ...]


def pods_of(manifest: Mapping[str, Any], namespace: str, *, all_tasks: bool = False) -> Iterator[RenderedPod]:
    """Yield the first Pod of each role, or all Pods, of a Framework without errors of `lint`.

    It would be created in this namespace, if it does not name one itself.

    Raises:
        ManifestError: A template cannot become a Pod, or the injector would refuse it.
    """
    name = str(manifest["metadata"]["name"])
    where = str(manifest["metadata"].get("namespace") or namespace)
    config = Config(version=__version__, in_place_restart=True)
    for role in manifest["spec"].get("taskRoles") or ():
        attempt = RoleAttempt(where, name, "FRAMEWORK-UID", 0, "CONFIGMAP-UID", role["name"], "TASKROLE-UID")
        try:
            template = PodTemplate(msgspec.json.encode(role["task"]["pod"]), attempt)
            number = role.get("taskNumber") or 0
            for index in range(number if all_tasks else min(number, 1)):
                pod = msgspec.json.decode(template.render(index, "TASK-UID", 0))
                injected, found = rendered(pod, config, EnvFiles.QUOTED)
                warnings = tuple(text for one in found for text in one.warnings)
                injected = {"apiVersion": "v1", "kind": "Pod"} | injected
                yield RenderedPod(f"{role['name']}-{index}", injected, warnings)
        except (TemplateError, RefusalError, RenderError) as error:
            raise ManifestError(f"spec.taskRoles[{role['name']}].task.pod: {error}") from error
