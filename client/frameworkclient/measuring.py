"""Asks metrics-server, through the API server, what the Pods of a Framework use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from frameworkclient.errors import RefusedError, translated
from frameworkclient.pages import objects
from frameworkclient.usage import API_VERSION, POD_METRICS_DECODER
from frameworkcontroller.api import names
from frameworkkube.rest import ApiStatusError, resource_path

if TYPE_CHECKING:
    from frameworkclient.usage import PodMetrics
    from frameworkkube.rest import KubeClient

# The API server answers so for an API that nobody serves, and for one whose server is away.
_REASONS: Final = {
    404: "the cluster does not measure Pods; ask an administrator to install metrics-server",
    503: "metrics-server is installed and does not answer; ask an administrator, or repeat later",
}


async def measured(kube: KubeClient, namespace: str, name: str) -> list[PodMetrics]:
    """Return what the Pods of a Framework use.

    Raises:
        ClientError: Nobody measures Pods, or the user may not read that.
    """
    what, path = f"read what {namespace}/{name} uses", resource_path(API_VERSION, "pods", namespace=namespace)
    with translated(what):
        try:
            selector = f"{names.FRAMEWORK_NAME}={name}"
            return [POD_METRICS_DECODER.decode(one) async for one in objects(kube, path, selector)]
        except ApiStatusError as error:
            if error.code in _REASONS:
                raise RefusedError(f"cannot {what}: {_REASONS[error.code]}", error.code) from error
            raise
