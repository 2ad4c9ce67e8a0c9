"""The client uses its own credentials and its own timeouts, whatever the image or the server brings."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from frameworkbarrier.source import api as kube
from frameworkbarrier.source.access import Access, Token
from tests.barrier.faulty_server import FaultyServer, Reply, Request, Script

Serve = Callable[[Script], FaultyServer]

PATH = "/api/v1/namespaces/lab/configmaps/x"
SILENT_SEC = 120.0
PROXY_VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


def answers(request: Request, reply: Reply) -> None:
    reply.answer(200, {"kind": "ConfigMap"})


@pytest.fixture(params=["http", "https"])
def asked(request: pytest.FixtureRequest, serve: Serve, serve_tls: Serve, token_dir: Path) -> FaultyServer:
    """A server that has been asked for PATH, over TLS with the token."""
    server = (serve if request.param == "http" else serve_tls)(answers)
    credentials = (Token(str(token_dir / "token")), str(token_dir / "ca.crt")) if request.param == "https" else ()
    kube.Api(Access(server.url, *credentials)).get(PATH)
    return server


@pytest.fixture
def netrc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials of the image for the API server's address, and no proxies."""
    file = tmp_path / "netrc"
    file.write_text("machine 127.0.0.1 login stranger password secret\n")
    file.chmod(0o600)
    monkeypatch.setenv("NETRC", str(file))
    for name in PROXY_VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def proxy(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> FaultyServer:
    """A proxy that the environment names for every address."""
    server = serve(answers)
    for name in PROXY_VARIABLES[:3]:
        monkeypatch.setenv(name, server.url)
        monkeypatch.setenv(name.upper(), server.url)
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    return server


def test_a_netrc_of_the_image_neither_adds_credentials_nor_replaces_the_token(netrc: None, asked: FaultyServer) -> None:
    headers = asked.requests[0].headers
    assert headers.get("authorization") == ("Bearer first" if asked.url.startswith("https") else None)
    assert headers["user-agent"] == "frameworkbarrier"


def test_a_proxy_of_the_environment_is_not_asked(proxy: FaultyServer, asked: FaultyServer) -> None:
    assert [request.path for request in asked.requests] == [PATH]
    assert proxy.requests == []


def says_nothing(reply: Reply) -> None:
    pass


def says_half(reply: Reply) -> None:
    reply.stream()
    reply.chunk(b'{"kind":')


@pytest.mark.parametrize("begin", [says_nothing, Reply.stream, says_half], ids=["nothing", "the head", "half a body"])
def test_a_get_waits_for_a_silent_server_as_long_as_its_constant_says(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, begin: Callable[[Reply], None]
) -> None:
    def silent(request: Request, reply: Reply) -> None:
        begin(reply)
        reply.hang(SILENT_SEC)
        reply.reset()  # so that a client without a timeout fails here instead of hanging

    monkeypatch.setattr(kube, "READ_TIMEOUT_SEC", 0.3)
    api = kube.Api(Access(serve(silent).url))
    started = time.monotonic()
    with pytest.raises(kube.UnavailableError):
        api.get(PATH)
    assert 0.3 <= time.monotonic() - started < SILENT_SEC / 2


def test_a_get_is_given_up_before_a_silent_watch_would_be() -> None:
    assert 0 < kube.CONNECT_TIMEOUT_SEC <= kube.READ_TIMEOUT_SEC < 60
