"""What is kept of nodes, where ranks may follow their topology: their labels."""

from itertools import islice
from typing import Final

import msgspec
from msgspec.structs import replace

from frameworkcontroller.api.meta import Identity, Wire

MAX_LABELS: Final = 512
"""Of a node, the first ones by their keys. The API server bounds a key to 317 characters and a value to 63, but whoever
has the credentials of a kubelet may give its node 1.5 MiB of them."""
MAX_SHARED: Final = 32_768
"""Keys and values that are remembered, also of nodes that are gone: up to 12 MiB. With more, sharing begins again."""


class NodeMeta(Identity, frozen=True):
    """The metadata of a node, with all of its labels: users name those that they mean."""

    labels: dict[str, str] = msgspec.field(default_factory=dict)


class Node(Wire, frozen=True):
    """A node, of which only the metadata is read."""

    metadata: NodeMeta


NODE_DECODER: Final = msgspec.json.Decoder(Node)


class SharedLabels:
    """The labels of all nodes, equal keys and values in memory once: 5,000 nodes with 30 labels take 7 MiB."""

    def __init__(self) -> None:
        self._shared: dict[str, str] = {}

    def keep(self, found: Node) -> Node:
        """Return what is kept of a node."""
        if len(self._shared) > MAX_SHARED:
            self._shared.clear()
        share, labels = self._shared.setdefault, islice(found.metadata.labels.items(), MAX_LABELS)
        kept = {share(key, key): share(value, value) for key, value in labels}
        return replace(found, metadata=replace(found.metadata, labels=kept))
