"""The Pods of a Framework."""

from frameworkclient.errors import translated
from frameworkclient.views.pods import TASK_POD_DECODER, TaskPod
from frameworkcontroller.api import names
from frameworkkube.http.client import KubeClient
from frameworkkube.http.pages import objects
from frameworkkube.paths import resource_path


async def pods_of(kube: KubeClient, namespace: str, name: str) -> tuple[TaskPod, ...]:
    """Return the Pods of a Framework by role and index.

    Raises:
        ClientError: They may not be read.
    """
    path, selector = resource_path("v1", "pods", namespace=namespace), f"{names.FRAMEWORK_NAME}={name}"
    with translated(f"list Pods of {namespace}/{name}"):
        found = [TASK_POD_DECODER.decode(one) async for one in objects(kube, path, selector)]
    return tuple(sorted(found, key=lambda pod: (pod.role, pod.index)))
