"""The raw client, against a small HTTPS server that answers as an API server does."""

from __future__ import annotations

import http.server
import json
import ssl
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import pytest
import trustme

from localcluster.client import ApiStatusError, RawClient
from localcluster.health import check_health

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Answers(http.server.BaseHTTPRequestHandler):
    """Answers each path with what `by_path` has for it."""

    by_path: ClassVar[dict[str, tuple[int, bytes]]] = {}

    def do_GET(self) -> None:
        status, content = self.by_path[self.path]
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None: ...


@dataclass(frozen=True)
class Server:
    server: str
    ca_file: Path
    admin_token: str = "secret"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.crt"))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers) as listener:
        listener.socket = tls.wrap_socket(listener.socket, server_side=True)
        thread = threading.Thread(target=listener.serve_forever)
        thread.start()
        yield Server(f"https://127.0.0.1:{listener.server_port}", tmp_path / "ca.crt")
        listener.shutdown()
        thread.join()


@pytest.fixture
def client(server: Server) -> Iterator[RawClient]:
    raw = RawClient(server)
    yield raw
    raw.close()


@pytest.mark.parametrize(
    ("answer", "ready"),
    [((200, b"ok"), True), ((200, b"[-]etcd failed"), "HTTP 200: [-]etcd failed"), ((500, b"no"), "HTTP 500: no")],
    ids=["ready", "other text", "error"],
)
def test_an_api_server_is_ready_when_it_answers_exactly_ok(
    client: RawClient, monkeypatch: pytest.MonkeyPatch, answer: tuple[int, bytes], ready: bool | str
) -> None:
    monkeypatch.setitem(Answers.by_path, "/readyz", answer)
    assert client.check_ready() == ready


def test_an_api_server_that_does_not_listen_is_not_ready_and_says_why(server: Server) -> None:
    # Port 9 of loopback: no process listens there.
    raw = RawClient(Server("https://127.0.0.1:9", server.ca_file))
    assert "refused" in str(raw.check_ready())
    raw.close()


def test_an_error_status_is_an_error_with_the_servers_message(
    client: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = {"kind": "Status", "message": "pods is forbidden"}
    monkeypatch.setitem(Answers.by_path, "/api", (403, json.dumps(body).encode()))
    with pytest.raises(ApiStatusError, match="GET /api: HTTP 403: pods is forbidden") as error:
        client.get("/api")
    assert (error.value.status, error.value.body) == (403, body)


def test_a_health_endpoint_is_asked_without_a_look_at_its_certificate(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(Answers.by_path, "/healthz", (200, b"ok"))
    monkeypatch.setitem(Answers.by_path, "/livez", (401, b""))
    assert check_health(f"{server.server}/healthz") is True
    assert check_health(f"{server.server}/livez") == "HTTP 401"
