"""What the controller caches of nodes, where ranks may follow their topology: their labels.

Nothing else waits for this cache: it may come late, or not at all where the controller may not read nodes.
"""

from collections.abc import Mapping
from itertools import islice
from typing import Final

from msgspec.structs import replace

from frameworkcontroller.api.node import NODE_DECODER, Node
from frameworkkube.http.client import PARTIAL_METADATA, KubeClient
from frameworkkube.informer.informer import Informer
from frameworkkube.paths import resource_path

UNKNOWN: Final = "labels of nodes are not read yet: may this controller list and watch nodes?"
DISABLED: Final = "labels of nodes are not read, because rankTopology.enabled of the controller is false"
MAX_LABELS: Final = 512
"""Of a node, the first ones by their keys. The API server bounds a key to 317 characters and a value to 63, but whoever
has the credentials of a kubelet may give its node 1.5 MiB of them."""
MAX_SHARED: Final = 32_768
"""Keys and values that are remembered, also of nodes that are gone: up to 12 MiB. With more, sharing begins again."""


class Nodes:
    """The labels of all nodes, equal keys and values in memory once: 5,000 nodes with 30 labels take 7 MiB."""

    def __init__(self, client: KubeClient) -> None:
        self._shared: dict[str, str] = {}
        self._informer = Informer(
            client,
            resource_path("v1", "nodes"),
            NODE_DECODER,
            on_change=lambda _old, _new: None,
            keep=self._kept,
            accept=PARTIAL_METADATA,
        )

    @property
    def unknown(self) -> str:
        """Why nothing can be said of nodes, "" if all are known."""
        return "" if self._informer.has_synced else UNKNOWN

    def labels(self, name: str) -> Mapping[str, str] | None:
        """Return the labels of the node of that name, None while nothing can be said of it or if there is none."""
        found = None if self.unknown else self._informer.get("", name)
        return None if found is None else found.metadata.labels

    async def run(self) -> None:
        """Fill the cache and keep it current until cancelled."""
        await self._informer.run()

    def _kept(self, found: Node) -> Node:
        if len(self._shared) > MAX_SHARED:
            self._shared.clear()
        share, labels = self._shared.setdefault, islice(found.metadata.labels.items(), MAX_LABELS)
        kept = {share(key, key): share(value, value) for key, value in labels}
        return replace(found, metadata=replace(found.metadata, labels=kept))
