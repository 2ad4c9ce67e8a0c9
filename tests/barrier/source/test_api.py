"""The client of the API server: where it is, its own credentials and timeouts, and what each answer means."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import responses

from frameworkbarrier.errors import SettingsError
from frameworkbarrier.source import access, api
from frameworkbarrier.source.access import Access, Token
from frameworkbarrier.source.api import Api, ApiError, ExpiredError, ForbiddenError, NotFoundError, UnavailableError
from tests.barrier.source.faulty_server import Reply, Request, Serve, answers

IN_CLUSTER = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}


@pytest.mark.parametrize(
    ("given", "environ", "address"),
    [
        ("", IN_CLUSTER, "https://10.96.0.1:443"),
        ("", {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"}, "https://[fd00::1]:6443"),
        ("https://other:1", IN_CLUSTER, "https://other:1"),
        ("http://127.0.0.1:8080", {}, "http://127.0.0.1:8080"),
    ],
    ids=["the cluster's own", "an IPv6 address in brackets", "a given one wins", "plain http"],
)
def test_the_address_comes_with_the_service_account_whose_token_never_travels_over_plain_http(
    token_dir: Path, given: str, environ: dict[str, str], address: str
) -> None:
    (token_dir / "ca.crt").write_text("CA")
    found = access.find(given, "/ignored", str(token_dir), environ)
    assert found.address == address
    read, ca = ("first", str(token_dir / "ca.crt")) if address.startswith("https") else (None, True)
    assert (found.token and found.token.read(), found.ca) == (read, ca)


@pytest.mark.parametrize(
    ("kubeconfig", "environ", "says"),
    [
        ("", IN_CLUSTER, r"FB_TOKEN_DIR=.*automountServiceAccountToken"),
        ("", {}, r"KUBE_APISERVER_ADDRESS.*KUBERNETES_SERVICE_HOST.*KUBECONFIG"),
        ("/absent", {}, r"KUBECONFIG=.*/absent"),
    ],
    ids=["no token", "no address", "no kubeconfig"],
)
def test_what_is_missing_is_named_with_the_ways_to_get_it(
    tmp_path: Path, kubeconfig: str, environ: dict[str, str], says: str
) -> None:
    with pytest.raises(SettingsError, match=says):
        access.find("", kubeconfig, str(tmp_path), environ)


def test_the_namespace_is_the_service_accounts(token_dir: Path, tmp_path: Path) -> None:
    assert access.read_namespace(str(token_dir)) == "lab"
    assert access.read_namespace(str(tmp_path / "absent")) == "default"


def failure(**answer: object) -> ApiError:
    """What a request ends with that is answered so."""
    with responses.RequestsMock() as server:
        server.get("https://api/x", **answer)
        with pytest.raises(ApiError) as caught:
            Api(Access("https://api")).get("/x")
    return caught.value


@pytest.mark.parametrize(
    ("code", "kind", "text"),
    [
        (403, ForbiddenError, 'HTTP 403: configmaps "x" is forbidden'),
        (404, NotFoundError, "HTTP 404: "),
        (410, ExpiredError, "HTTP 410: "),
        (401, UnavailableError, "the API server answers HTTP 401: "),
        (400, UnavailableError, "the API server answers HTTP 400: "),
        (302, UnavailableError, "the API server answers HTTP 302: "),
    ],
)
def test_each_answer_has_its_meaning_and_the_servers_own_words(code: int, kind: type[ApiError], text: str) -> None:
    found = failure(status=code, body=json.dumps({"kind": "Status", "message": 'configmaps "x" is\nforbidden'}))
    assert type(found) is kind
    assert str(found).startswith(text)


@pytest.mark.parametrize("body", ["", "{", "[]", "null", "[" * 100_000], ids=["empty", "half", "list", "null", "deep"])
def test_an_answer_that_is_no_object_is_that_of_a_faulty_server(body: str) -> None:
    assert type(failure(body=body)) is UnavailableError


@pytest.mark.parametrize(("value", "seconds"), [("7", 7.0), ("86400", 300.0), ("-1", None), ("soon", None)])
def test_retry_after_is_read_with_care(value: str, seconds: float | None) -> None:
    found = failure(status=429, headers={"Retry-After": value})
    assert isinstance(found, UnavailableError)
    assert found.retry_after == seconds


PATH = "/api/v1/namespaces/lab/configmaps/x"
ANSWER = answers({"kind": "ConfigMap"})


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_neither_a_netrc_of_the_image_nor_a_proxy_of_the_environment_is_used(
    serve: Serve, serve_tls: Serve, token_dir: Path, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    proxy, netrc = serve(ANSWER), token_dir / "netrc"
    netrc.write_text("machine 127.0.0.1 login stranger password secret\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, proxy.url)
        monkeypatch.setenv(name.upper(), proxy.url)
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    server = (serve if scheme == "http" else serve_tls)(ANSWER)
    credentials = (Token(str(token_dir / "token")), str(token_dir / "ca.crt")) if scheme == "https" else ()
    Api(Access(server.url, *credentials)).get(PATH)
    (request,) = server.requests
    assert (request.path, request.headers["user-agent"]) == (PATH, "frameworkbarrier")
    assert request.headers.get("authorization") == ("Bearer first" if credentials else None)
    assert proxy.requests == []


SILENT_SEC = 120.0


def says_half(reply: Reply) -> None:
    reply.stream()
    reply.chunk(b'{"kind":')


@pytest.mark.parametrize("begin", [lambda _: None, Reply.stream, says_half], ids=["nothing", "the head", "half a body"])
def test_a_get_waits_for_a_silent_server_as_long_as_its_constant_says(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, begin: Callable[[Reply], None]
) -> None:
    def silent(request: Request, reply: Reply) -> None:
        begin(reply)
        reply.hang(SILENT_SEC)
        reply.reset()  # so that a client without a timeout fails here instead of hanging

    assert 0 < api.CONNECT_TIMEOUT_SEC <= api.READ_TIMEOUT_SEC < 60  # before a silent watch would be given up
    monkeypatch.setattr(api, "READ_TIMEOUT_SEC", 0.3)
    server, started = serve(silent), time.monotonic()
    with pytest.raises(UnavailableError):
        Api(Access(server.url)).get(PATH)
    assert 0.3 <= time.monotonic() - started < SILENT_SEC / 2
