"""HTTP to a port of this machine, and a server on one."""

import asyncio
import contextlib
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import aiohttp
from aiohttp import web

from frameworkkube.http.session import Sockets
from testkit.waiting import patience


@contextlib.asynccontextmanager
async def tls_session(trust: ssl.SSLContext, **connector: Any) -> AsyncIterator[aiohttp.ClientSession]:
    """Open an HTTP client that has closed every socket at its end.

    aiohttp alone does not wait until the server has ended TLS; a socket that is open as the event loop is closed warns
    in a later test.
    """
    sockets = Sockets()
    try:
        made = aiohttp.TCPConnector(ssl=trust, socket_factory=sockets.make, **connector)
        async with aiohttp.ClientSession(connector=made, auto_decompress=False) as session:
            yield session
    finally:
        await sockets.close()


@contextlib.asynccontextmanager
async def app_served(app: web.Application, *, backlog: int = 128, **options: Any) -> AsyncIterator[str]:
    """Serve an application on loopback for the block, at the URL that is returned; `options` are its runner's."""
    runner = web.AppRunner(app, **options)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, backlog=backlog).start()
        host, port = runner.addresses[0][:2]
        yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()


@contextlib.contextmanager
def serving(
    answer: Callable[..., tuple[int, bytes]], *, port: int = 0, tls: ssl.SSLContext | None = None
) -> Iterator[str]:
    """Serve HTTP on loopback while the block runs, and return the URL.

    Args:
        answer: Returns the status and the content for the path of a GET request, or for path and body of a POST.
        port: The port; 0 means a free one.
        tls: Makes it HTTPS.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._send(*answer(self.path))

        def do_POST(self) -> None:
            self._send(*answer(self.path, self.rfile.read(int(self.headers["Content-Length"]))))

        def _send(self, status: int, content: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", port), Handler) as server:
        if tls:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"{'https' if tls else 'http'}://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


async def served_certificate(port: int, server_hostname: str | None = None) -> bytes:
    """Return the certificate that a new connection gets, DER; without a name none is sent."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=server_hostname or "")
    found: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.transport.abort()
    return found


def fetch(port: int, path: str, **headers: str) -> tuple[int, str]:
    """Return the status and the text of an answer.

    Raises:
        URLError: There is no answer.
    """
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=patience(10)) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
