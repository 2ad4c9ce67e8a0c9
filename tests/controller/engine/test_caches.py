"""What the caches tell the engine about Pods that are gone: each deletion once, watched or missed."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest

from frameworkcontroller.engine.cache.caches import Caches
from frameworkkube.errors import GoneError
from tests.kube.scripted import refuse_to_list
from tests.kube.virtualtime import in_virtual_time

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from frameworkcontroller.api.framework import Framework
    from frameworkcontroller.engine.cache.caches import FrameworkKey
    from frameworkkube.informer.watch_events import UndecodableObject

PODS = "/api/v1/pods"


def pod(name: str) -> dict[str, Any]:
    metadata = {
        "name": name,
        "namespace": "n",
        "uid": f"uid-{name}",
        "resourceVersion": "3",
        "labels": {"FC_FRAMEWORK_NAME": "fw"},
    }
    status = {"phase": "Failed", "podIP": "10.0.0.1"}
    return {"metadata": metadata, "spec": {"nodeName": "node", "hostNetwork": True}, "status": status}


class Client:
    """Lists two Pods, then none; the watch in between shows the deletion of the first one, and expires."""

    def __init__(self) -> None:
        self.lists = 0
        self.expires = asyncio.Event()

    async def request(self, _method: str, path: str, **_more: Any) -> bytes:
        items = []
        if path == PODS:
            self.lists += 1
            items = [pod("fw-a-0"), pod("fw-a-1")] if self.lists == 1 else []
        return json.dumps({"metadata": {"resourceVersion": "5"}, "items": items}).encode()

    async def stream(
        self, path: str, query: Mapping[str, str], *, on_open: Callable[[], None], **_more: Any
    ) -> AsyncIterator[bytes]:
        refuse_to_list(query)
        on_open()
        if path == PODS and self.lists == 1:
            yield json.dumps({"type": "DELETED", "object": pod("fw-a-0")}).encode()
            await self.expires.wait()
            raise GoneError(410, "Expired", "too old")
        await asyncio.Event().wait()


class Listener:
    def __init__(self) -> None:
        self.gone: list[dict[str, Any]] = []

    def on_framework(self, key: FrameworkKey) -> None: ...
    def on_framework_gone(self, key: FrameworkKey) -> None: ...
    def on_framework_deletion(self, last: Framework) -> None: ...
    def keep_framework(self, found: Framework) -> Framework:
        return found

    def on_undecodable_framework(self, found: UndecodableObject) -> None:
        raise AssertionError(found)

    def on_config_map(self, key: FrameworkKey) -> None: ...
    def on_pod(self, key: FrameworkKey, name: str) -> None: ...
    def on_pod_gone(self, document: bytes) -> None:
        self.gone.append(json.loads(document))


class LargeClient(Client):
    """Lists Pods and ConfigMaps into which somebody has written what nobody reads."""

    async def request(self, _method: str, path: str, **_more: Any) -> bytes:
        self.lists += 2
        items: list[Any] = []
        for number in range(20 if path in {PODS, "/api/v1/configmaps"} else 0):
            found = pod(f"fw-a-{number}") if path == PODS else {"metadata": pod(f"fw-{number}")["metadata"]}
            large = {f"key-{entry}": str(entry) * 100 for entry in range(200)}
            owner = {"kind": f"{number}" + "k" * 100_000, "name": "n" * 100_000, "uid": "u" * 100_000}
            found["metadata"]["labels"] |= large
            found["metadata"] |= {"annotations": large, "ownerReferences": [owner, owner | {"controller": True}]}
            items.append(found)
        return json.dumps({"metadata": {"resourceVersion": "5"}, "items": items}).encode()


class Relabelling(Client):
    """Somebody changes the label of a Pod, which then ends."""

    async def stream(
        self, path: str, query: Mapping[str, str], *, on_open: Callable[[], None], **_more: Any
    ) -> AsyncIterator[bytes]:
        refuse_to_list(query)
        on_open()
        if path == PODS:
            found = pod("fw-a-0")
            owner = {"kind": "ConfigMap", "name": "fw-attempt", "uid": "u", "controller": True}
            found["metadata"] |= {"labels": {"FC_FRAMEWORK_NAME": "other"}, "ownerReferences": [owner]}
            for version in ("6", "7"):
                found["metadata"]["resourceVersion"] = version
                yield json.dumps({"type": "MODIFIED", "object": found}).encode()
        await asyncio.Event().wait()


@contextlib.asynccontextmanager
async def running(client: Client, listener: Listener) -> AsyncIterator[Caches]:
    """Caches that have listed what the client lists first."""
    caches = Caches(client, (), listener)  # type: ignore[arg-type]
    task = asyncio.create_task(caches.run())
    await caches.synced()
    try:
        yield caches
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


@in_virtual_time
async def test_a_framework_is_told_of_a_pod_whose_label_somebody_has_changed() -> None:
    told: list[tuple[str, str]] = []
    listener = Listener()
    listener.on_pod = lambda key, name: told.append((key[1], name))  # type: ignore[method-assign]
    async with running(Relabelling(), listener):
        await asyncio.sleep(1)
        assert told.count(("fw", "fw-a-0")) == 3
        assert told.count(("other", "fw-a-0")) == 2


@in_virtual_time
async def test_the_caches_keep_nothing_of_what_others_write_into_an_object() -> None:
    """100 Pods with owners of some MiB, or 40 ConfigMaps with labels, took 400 to 600 MiB."""
    tracemalloc.start()
    async with running(LargeClient(), Listener()) as caches:
        gc.collect()
        used, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert caches.sizes["pods"] == 20
        assert used < 500_000


@in_virtual_time
async def test_a_pod_whose_deletion_no_watch_showed_is_reported_with_what_the_cache_held() -> None:
    client, listener = Client(), Listener()
    async with running(client, listener):
        await asyncio.sleep(10)
        assert [one["metadata"]["name"] for one in listener.gone] == ["fw-a-0"]
        assert listener.gone[0]["spec"]["hostNetwork"], "the whole Pod"
        client.expires.set()
        await asyncio.sleep(60)
    assert [one["metadata"]["name"] for one in listener.gone] == ["fw-a-0", "fw-a-1"]
    missed = listener.gone[1]
    assert (missed["metadata"]["uid"], missed["spec"]["nodeName"]) == ("uid-fw-a-1", "node")
    assert (missed["status"]["phase"], missed["status"]["podIP"]) == ("Failed", "10.0.0.1")
