"""Lists that come in pages, object by object: as the client and the audit of the injector read them."""

from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

import msgspec

from frameworkkube import json_parts
from frameworkkube.errors import GoneError
from frameworkkube.http.client import KubeClient

PAGE: Final = 100
"""Objects of a page; a Framework with thousands of Tasks has a MiB."""
LIST_TIMEOUT_SECONDS: Final = 60.0


class _List(msgspec.Struct, frozen=True):
    items: list[msgspec.Raw] | None
    metadata: dict[str, Any] = {}


_decode: Final = msgspec.json.Decoder(_List).decode
_decode_metadata: Final = msgspec.json.Decoder(dict[str, Any]).decode


async def objects(
    kube: KubeClient, path: str, label_selector: str = "", field_selector: str = "", page_size: int = PAGE
) -> AsyncIterator[bytes]:
    """Yield the JSON of each object of a collection, none of them twice.

    Raises:
        KubeError: The API server refuses, or there is no answer.
        msgspec.DecodeError: The answer is no list.
    """
    selectors = {"labelSelector": label_selector, "fieldSelector": field_selector}
    query = {"limit": str(page_size)} | {name: selector for name, selector in selectors.items() if selector}
    while True:
        try:
            body = await kube.request("GET", path, query=query, timeout_seconds=LIST_TIMEOUT_SECONDS)
        except GoneError as error:
            # The token was too old. The answer has another one, for the rest of the list as it is now.
            token = (error.status.get("metadata") or {}).get("continue")
            if not token or token == query.get("continue"):
                raise
            query["continue"] = token
            continue
        items, metadata = _cut(body)
        for item in items:
            yield bytes(item)
        query["continue"] = metadata.get("continue") or ""
        if not query["continue"]:
            return


def _cut(body: bytes) -> tuple[Sequence[msgspec.Raw | bytes], dict[str, Any]]:
    try:
        page = _decode(body)
    except RecursionError:  # somebody's object is deeper than the decoder goes
        items, metadata = json_parts.page(body)
        return items, _decode_metadata(metadata)
    return page.items or (), page.metadata
