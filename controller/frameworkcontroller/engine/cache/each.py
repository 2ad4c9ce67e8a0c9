"""An informer for each namespace in which the controller works, or one for all."""

from collections.abc import Sequence
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from frameworkcontroller.api import names
from frameworkcontroller.api.meta import PARTIAL_DECODER, Partial
from frameworkkube.http.client import PARTIAL_METADATA, KubeClient
from frameworkkube.informer.informer import Informer
from frameworkkube.informer.store import Change, HasMetadata
from frameworkkube.paths import resource_path

K = TypeVar("K", bound=HasMetadata)

CONFIG_MAP_ANNOTATIONS: Final = frozenset({names.ROSTER_ANNOTATION})


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


def config_maps_of_each(
    client: KubeClient, namespaces: Sequence[str], label: str, on_change: Change[Partial]
) -> dict[str, Informer[Partial]]:
    """Return the informers of ConfigMaps with a label: of their metadata, without annotations and owners of others."""
    return of_each(
        client,
        namespaces,
        "v1",
        "configmaps",
        PARTIAL_DECODER,
        on_change=on_change,
        keep=lambda found: replace(found, metadata=found.metadata.slim(CONFIG_MAP_ANNOTATIONS)),
        label_selector=label,
        accept=PARTIAL_METADATA,
    )
