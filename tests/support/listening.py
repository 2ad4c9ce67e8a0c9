"""The end of asyncio's servers."""

import asyncio


async def close_listener(server: asyncio.Server) -> None:
    """Stop listening, and lose no connection that was accepted: who holds it can end it.

    asyncio forgets a connection, with its socket open, that it has accepted and not yet attached to the server when the
    server closes. The socket's warning would then fail a later test.
    """
    loop = asyncio.get_running_loop()
    for listening in server.sockets:
        loop.remove_reader(listening.fileno())
    await asyncio.sleep(0.01)
    server.close()
