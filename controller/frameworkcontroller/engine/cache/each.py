"""An informer for each namespace in which the controller works, or one for all."""

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from frameworkkube.http.client import KubeClient
from frameworkkube.informer.informer import Informer
from frameworkkube.informer.store import HasMetadata
from frameworkkube.paths import resource_path

K = TypeVar("K", bound=HasMetadata)


def of_each(
    client: KubeClient,
    namespaces: Sequence[str],
    api: str,
    plural: str,
    decoder: msgspec.json.Decoder[K],
    **more: Any,
) -> dict[str, Informer[K]]:
    """Return the informers by namespace; without names of any, the one for all by ""."""
    paths = {where: resource_path(api, plural, namespace=where or None) for where in namespaces or [""]}
    return {where: Informer(client, path, decoder, **more) for where, path in paths.items()}
