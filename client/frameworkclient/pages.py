"""Lists that come in pages, object by object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from frameworkkube.rest import KubeClient

PAGE: Final = 100
"""Objects of a page; a Framework with thousands of Tasks has a MiB."""
LIST_TIMEOUT_SECONDS: Final = 60.0


class _ListMeta(msgspec.Struct, frozen=True):
    # "continue" is a keyword in Python.
    token: str = msgspec.field(default="", name="continue")


class _List(msgspec.Struct, frozen=True):
    items: list[msgspec.Raw] | None
    metadata: _ListMeta = _ListMeta()


async def objects(kube: KubeClient, path: str, label_selector: str = "") -> AsyncIterator[bytes]:
    """Yield the JSON of each object of a collection.

    Raises:
        KubeError: The API server refuses, or there is no answer.
        msgspec.DecodeError: The answer is no list.
    """
    query = {"limit": str(PAGE)} | ({"labelSelector": label_selector} if label_selector else {})
    while True:
        body = await kube.request("GET", path, query=query, timeout_seconds=LIST_TIMEOUT_SECONDS)
        page = msgspec.json.decode(body, type=_List)
        for item in page.items or ():
            yield bytes(item)
        if not page.metadata.token:
            return
        query["continue"] = page.metadata.token
