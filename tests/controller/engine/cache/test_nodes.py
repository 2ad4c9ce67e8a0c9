"""What the cache of nodes knows and keeps of them, and that nothing waits for it."""

import asyncio
from typing import Any

import msgspec

from frameworkcontroller.api.rank_topology import NODES
from frameworkcontroller.engine.cache.caches import Caches, CacheView
from frameworkcontroller.engine.cache.companions import NODES_DISABLED, UNKNOWN
from frameworkcontroller.engine.cache.nodes import MAX_LABELS, MAX_SHARED, NODE_DECODER, Node, SharedLabels
from frameworkkube.errors import ForbiddenError
from frameworkkube.http.client import PARTIAL_METADATA_LIST
from tests.controller.engine.cache.test_caches import running
from tests.controller.engine.stubs import Client, framework, until
from tests.kube.virtualtime import in_virtual_time
from tests.support.memory import memory

PATH = "/api/v1/nodes"


def node(name: str, labels: dict[str, str]) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": "1", "labels": labels}}


class Refusing(Client):
    """Refuses to list nodes until somebody allows it."""

    allowed = False

    async def request(self, method: str, path: str, **more: Any) -> bytes:
        self.at.append(path)
        if path == PATH:
            assert more["accept"] == PARTIAL_METADATA_LIST
            if not self.allowed:
                raise ForbiddenError(403, "Forbidden", "nodes is forbidden")
        return await super().request(method, path, **more)


def view_of(caches: Caches) -> CacheView:
    view = caches.view(("n", "fw"))
    assert view is not None
    return view


@in_virtual_time
async def test_nothing_waits_for_nodes_that_may_not_be_read_and_they_are_known_once_they_may_be() -> None:
    client = Refusing(framework(), nodes=[node("a", {"zone": "1", "rack": "2"}), node("b", {})])
    async with running(client, rank_topology=True) as (caches, _):
        view = view_of(caches)
        await asyncio.sleep(600)
        assert 5 < client.at.count(PATH) < 60
        assert (view.unknown(NODES), view.node_labels("a")) == (UNKNOWN[NODES], None)
        client.allowed = True
        await until(lambda: not view.unknown(NODES))
        assert [view.node_labels(name) for name in "abc"] == [{"zone": "1", "rack": "2"}, {}, None]


@in_virtual_time
async def test_without_the_setting_nodes_are_not_asked_for() -> None:
    client = Refusing(framework())
    async with running(client) as (caches, _):
        view = view_of(caches)
        await asyncio.sleep(60)
        assert (view.unknown(NODES), view.node_labels("a")) == (NODES_DISABLED, None)
    assert PATH not in client.at


def kept(nodes: SharedLabels, name: str, labels: dict[str, str]) -> Node:
    """What the cache keeps of a node with these labels."""
    return nodes.keep(NODE_DECODER.decode(msgspec.json.encode(node(name, labels))))


def test_equal_labels_of_nodes_are_in_memory_once() -> None:
    """5,000 nodes with 30 labels took 26 MiB without that."""
    nodes, held = SharedLabels(), list[Node]()
    with memory() as used:
        for number in range(500):
            own = {f"example.com/{key}": f"{key}-of-node-{number:04}" for key in ("hostname", "instance", "serial")}
            common = {f"feature.example.com/a-property-of-the-node.{key}": f"value-{key}" for key in range(27)}
            held.append(kept(nodes, f"node-{number}", own | common))
        assert used() < 500 * 2_000


def test_what_one_node_and_nodes_that_are_gone_take_is_bounded() -> None:
    nodes = SharedLabels()
    for number in range(2 * MAX_SHARED // MAX_LABELS):
        labels = {f"{number}-{key:04}": "" for key in range(2 * MAX_LABELS)}
        assert list(kept(nodes, "a", labels).metadata.labels) == list(labels)[:MAX_LABELS]
    assert len(nodes._shared) <= MAX_SHARED + MAX_LABELS
