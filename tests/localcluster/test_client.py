"""Whether an API server and other components are ready, asked of a small HTTPS server."""

import contextlib
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import trustme

from localcluster.client import RawClient
from localcluster.processes.health import check_health
from tests.support.http import serving


@dataclass(frozen=True)
class Server:
    """What the client needs of a cluster, and what the server answers, by path."""

    server: str
    ca_file: Path
    answers: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    admin_token: str = "secret"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    authority, tls = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.crt"))
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    with serving(lambda path: made.answers[path], tls=tls) as url:
        made = Server(url, tmp_path / "ca.crt")
        yield made


def test_an_api_server_is_ready_when_it_answers_exactly_ok_and_says_else_why_not(server: Server) -> None:
    with contextlib.closing(RawClient(server)) as client:
        for status, text, ready in (
            (200, "ok", True),
            (200, "[-]etcd", "HTTP 200: [-]etcd"),
            (500, "no", "HTTP 500: no"),
        ):
            server.answers["/readyz"] = (status, text.encode())
            assert client.check_ready() == ready
    # Port 9 of loopback: no process listens there.
    with contextlib.closing(RawClient(replace(server, server="https://127.0.0.1:9"))) as client:
        assert "refused" in str(client.check_ready())


def test_a_health_endpoint_is_asked_without_a_look_at_its_certificate(server: Server) -> None:
    server.answers.update({"/healthz": (200, b"ok"), "/livez": (401, b"")})
    assert check_health(f"{server.server}/healthz") is True
    assert check_health(f"{server.server}/livez") == "HTTP 401"
