"""Tells the controller which Pods that have ended may go: their logs are kept, or are known to be lost.

It has no authentication: whoever asks needs UIDs, and learns nothing else of them.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Annotated, Final

import msgspec
from aiohttp import web

from frameworkhistory.logs.collector import Collector

PATH: Final = "/kept"
MOST_SECONDS: Final = 1.0
_MOST_BYTES: Final = 64 << 10


class Kept(msgspec.Struct):
    """UIDs of Pods: of all that are asked for, or of those whose logs are kept."""

    uids: Annotated[list[Annotated[str, msgspec.Meta(max_length=64)]], msgspec.Meta(max_length=1000)]


_DECODER: Final = msgspec.json.Decoder(Kept)


def kept_handler(collector: Collector | None) -> Callable[[web.BaseRequest], Awaitable[web.Response]]:
    """Return the handler of `POST /kept` with `{"uids": [...]}`, at most 1,000 in 64 KiB.

    It answers `{"kept": [...]}` as soon as one of them is kept, after a second in any case. Without a collector no log
    is waited for.
    """

    async def handle(request: web.BaseRequest) -> web.Response:
        body = b""
        async for chunk in request.content.iter_any():
            body += chunk
            if len(body) > _MOST_BYTES:
                return web.Response(status=413, text=f"at most {_MOST_BYTES} bytes\n")
        try:
            uids = _DECODER.decode(body).uids
        except msgspec.MsgspecError as error:
            return web.Response(status=400, text=f"{error}\n")
        until = time.monotonic() + MOST_SECONDS
        while True:
            changed = asyncio.Event() if collector is None else collector.changed
            found = [uid for uid in uids if collector is None or collector.kept(uid)]
            if found or not uids or (left := until - time.monotonic()) <= 0:
                return web.Response(body=msgspec.json.encode({"kept": found}), content_type="application/json")
            try:
                await asyncio.wait_for(changed.wait(), left)
            except TimeoutError:
                continue

    return handle
