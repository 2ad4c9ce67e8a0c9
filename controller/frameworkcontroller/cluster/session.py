"""aiohttp sessions as the API server wants them: kept alive, noticed when dead, nothing sent twice."""

import socket

import aiohttp
from aiohttp.abc import AbstractCookieJar

_KEEP_IDLE_CONNECTION_SECONDS = 30.0
"""Below the 90 s and more after which API servers and load balancers close idle connections."""
_TCP_OPTIONS = (
    ("TCP_KEEPIDLE", 30),
    ("TCP_KEEPINTVL", 10),
    ("TCP_KEEPCNT", 3),
    ("TCP_USER_TIMEOUT", 60_000),
)


def new_session(user_agent: str, max_connections: int) -> aiohttp.ClientSession:
    """A session without cookies, compression, redirects or resends; call it inside the running loop.

    Args:
        user_agent: header value.
        max_connections: 0 for no limit.
    """
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            limit=max_connections,
            keepalive_timeout=_KEEP_IDLE_CONNECTION_SECONDS,
            socket_factory=_socket,
        ),
        # Compressing costs the server and us more than the bytes on a cluster's network.
        headers={"User-Agent": user_agent, "Accept-Encoding": "identity"},
        cookie_jar=_no_cookies(),
        timeout=aiohttp.ClientTimeout(total=None),  # callers bound every await themselves
        auto_decompress=True,
    )
    # By default a PUT or DELETE whose connection breaks before the answer is sent once more without a word; the
    # second one then meets
    # its own traces (Conflict, NotFound). "Unknown" must reach the caller as unknown. There is no public switch; a
    # test watches this one.
    session._retry_connection = False
    return session


def _no_cookies() -> AbstractCookieJar:
    return aiohttp.DummyCookieJar()


def _socket(address: tuple[object, ...]) -> socket.socket:
    family, kind, protocol, *_ = address
    assert isinstance(family, int)
    assert isinstance(kind, int)
    assert isinstance(protocol, int)
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _TCP_OPTIONS:
        option = getattr(socket, name, None)  # not every system has each of them
        if option is not None:
            made.setsockopt(socket.IPPROTO_TCP, option, value)
    return made
