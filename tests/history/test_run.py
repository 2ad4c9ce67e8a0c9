"""The page is served within limits on connections, which cut none that is used."""

import asyncio

from aiohttp import ClientSession, web

from frameworkhistory.run import listening
from frameworkkube.serving.places import ConnectionLimits


async def test_a_connection_that_has_brought_a_request_is_not_cut_as_a_silent_one() -> None:
    async def slowly(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(5):
            await response.write(b".")
            await asyncio.sleep(0.2)
        return response

    app = web.Application()
    app.router.add_get("/", slowly)
    async with listening(app, "127.0.0.1", 0, ConnectionLimits(first_request_seconds=0.3)) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        async with ClientSession() as session, session.get(f"http://127.0.0.1:{port}/") as answer:
            assert await answer.text() == "....."
        assert await asyncio.wait_for(reader.read(), 5) == b""  # one that says nothing
        writer.close()
