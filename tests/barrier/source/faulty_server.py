"""An HTTP server that answers exactly what a test wants, also what no healthy API server would: for faults only.

That the barrier works with Kubernetes is shown against a real API server in `tests/apiserver`.
"""

import json
import socket
import ssl
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.support.waiting import becomes


@dataclass(frozen=True)
class Request:
    path: str
    query: dict[str, str]
    headers: dict[str, str]

    @property
    def watches(self) -> bool:
        return "watch" in self.query


class Reply:
    """What a script does with one request."""

    def __init__(self, handler: BaseHTTPRequestHandler, closing: threading.Event) -> None:
        self._handler = handler
        self._closing = closing

    def answer(self, code: int, body: object = None, **headers: str) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body or {}).encode()
        self._handler.send_response(code)
        for name, value in headers.items():
            self._handler.send_header(name.replace("_", "-"), value)
        self._handler.send_header("Content-Length", str(len(data)))
        self._handler.end_headers()
        self._handler.wfile.write(data)

    def status(self, code: int, message: str, **headers: str) -> None:
        """A Kubernetes Status."""
        body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": code}
        self.answer(code, body, Content_Type="application/json", **headers)

    def stream(self) -> None:
        self._handler.send_response(200)
        self._handler.send_header("Content-Type", "application/json")
        self._handler.send_header("Transfer-Encoding", "chunked")
        self._handler.end_headers()

    def event(self, kind: str, body: object) -> None:
        self.chunk(json.dumps({"type": kind, "object": body}).encode() + b"\n")

    def chunk(self, data: bytes) -> None:
        self._handler.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self._handler.wfile.flush()

    def end(self) -> None:
        self._handler.wfile.write(b"0\r\n\r\n")

    def hang(self, seconds: float = 3600.0) -> None:
        """Keep the connection open and send nothing."""
        self._closing.wait(seconds)

    def reset(self) -> None:
        """End with RST instead of FIN."""
        connection = self._handler.connection
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._handler.close_connection = True
        if isinstance(connection, ssl.SSLSocket):
            connection = socket.socket(fileno=connection.detach())
        connection.close()


Script = Callable[[Request, Reply], None]


class FaultyServer:
    """Listens on loopback until closed; `requests` is what came in, in order."""

    def __init__(self, script: Script, tls: ssl.SSLContext | None = None) -> None:
        self.script = script
        self.requests: list[Request] = []
        self._closing = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
                request = Request(parts.path, query, {k.lower(): v for k, v in self.headers.items()})
                outer.requests.append(request)
                try:
                    outer.script(request, Reply(self, outer._closing))
                except (OSError, ValueError):
                    self.close_connection = True

            def log_message(self, *args: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: Any, client_address: Any) -> None:
                pass

        self._server = Server(("127.0.0.1", 0), Handler)
        if tls:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()

    def is_asked(self, times: int) -> None:
        """Wait until so many requests have come in."""
        becomes(lambda: len(self.requests) >= times, wanted=True)


Serve = Callable[[Script], FaultyServer]
"""The fixtures `serve` and `serve_tls`: start a server that follows a script."""


def status(code: int, message: str = "no", **headers: str) -> Script:
    """Answer with a Kubernetes Status."""
    return lambda request, reply: reply.status(code, message, **headers)


def answers(document: object, *events: tuple[str, object], then: Callable[[Reply], None] = Reply.hang) -> Script:
    """Answer each read with a document, or with a status if it is a code; a watch gets the events, then silence."""

    def script(request: Request, reply: Reply) -> None:
        if request.watches:
            reply.stream()
            for kind, body in events:
                reply.event(kind, body)
            then(reply)
        elif isinstance(document, int):
            reply.status(document, f"no {request.path}")
        else:
            reply.answer(200, document)

    return script


def in_turn(*steps: Script) -> Script:
    """Step i answers request i; the last one answers all further ones."""
    left = list(steps)

    def script(request: Request, reply: Reply) -> None:
        step = left.pop(0) if len(left) > 1 else left[0]
        step(request, reply)

    return script
