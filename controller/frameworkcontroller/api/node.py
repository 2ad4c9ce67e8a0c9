"""A node as cached: its name and its labels."""

from typing import Final

import msgspec

from frameworkcontroller.api.meta import Identity, Wire


class NodeMeta(Identity, frozen=True):
    """The metadata of a node, with all of its labels: users name those that they mean."""

    labels: dict[str, str] = msgspec.field(default_factory=dict)


class Node(Wire, frozen=True):
    """A node, of which only the metadata is read."""

    metadata: NodeMeta


NODE_DECODER: Final = msgspec.json.Decoder(Node)
