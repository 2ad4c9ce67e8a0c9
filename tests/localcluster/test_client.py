"""The raw client, against a small HTTPS server that answers as an API server does."""

from __future__ import annotations

import contextlib
import json
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
import trustme

from localcluster.client import ApiStatusError, RawClient
from localcluster.health import check_health
from tests.support.http import serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Answers = dict[str, tuple[int, bytes]]
FORBIDDEN = {"kind": "Status", "message": "pods is forbidden"}


@dataclass(frozen=True)
class Server:
    server: str
    ca_file: Path
    admin_token: str = "secret"


@pytest.fixture
def answers() -> Answers:
    """What the server answers, by path."""
    return {}


@pytest.fixture
def server(answers: Answers, tmp_path: Path) -> Iterator[Server]:
    authority, tls = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.crt"))
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    with serving(lambda path: answers[path], tls=tls) as url:
        yield Server(url, tmp_path / "ca.crt")


def test_an_api_server_is_ready_when_it_answers_exactly_ok_and_says_else_why_not(
    server: Server, answers: Answers
) -> None:
    with contextlib.closing(RawClient(server)) as client:
        for status, text, ready in (
            (200, "ok", True),
            (200, "[-]etcd", "HTTP 200: [-]etcd"),
            (500, "no", "HTTP 500: no"),
        ):
            answers["/readyz"] = (status, text.encode())
            assert client.check_ready() == ready
    # Port 9 of loopback: no process listens there.
    with contextlib.closing(RawClient(Server("https://127.0.0.1:9", server.ca_file))) as client:
        assert "refused" in str(client.check_ready())


def test_an_error_status_is_an_error_with_the_servers_message(server: Server, answers: Answers) -> None:
    answers["/api"] = (403, json.dumps(FORBIDDEN).encode())
    with (
        contextlib.closing(RawClient(server)) as client,
        pytest.raises(ApiStatusError, match="GET /api: HTTP 403: pods is forbidden") as error,
    ):
        client.get("/api")
    assert (error.value.status, error.value.body) == (403, FORBIDDEN)


def test_a_health_endpoint_is_asked_without_a_look_at_its_certificate(server: Server, answers: Answers) -> None:
    answers |= {"/healthz": (200, b"ok"), "/livez": (401, b"")}
    assert check_health(f"{server.server}/healthz") is True
    assert check_health(f"{server.server}/livez") == "HTTP 401"
