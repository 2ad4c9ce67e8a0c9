"""Tells the controller which Pods that have ended may go: their logs are kept, or are known to be lost.

It has no authentication: whoever asks needs UIDs, and learns nothing else of them.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
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
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            return web.Response(status=400, text=f"{error}\n")
        found = uids
        if collector is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(MOST_SECONDS):
                    while uids and not (found := [uid for uid in uids if collector.kept(uid)]):
                        await collector.changed.wait()
        return web.Response(body=msgspec.json.encode({"kept": found}), content_type="application/json")

    return handle
