import json
from pathlib import Path

import pytest
import responses

from frameworkbarrier.errors import SettingsError
from frameworkbarrier.source import access
from frameworkbarrier.source.access import Access, Token
from frameworkbarrier.source.api import Api, ApiError, ExpiredError, ForbiddenError, NotFoundError, UnavailableError

IN_CLUSTER = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}


def test_the_clusters_own_address_comes_with_the_service_account(token_dir: Path) -> None:
    (token_dir / "ca.crt").write_text("CA")
    found = access.find("", "/ignored", str(token_dir), IN_CLUSTER)
    assert found.address == "https://10.96.0.1:443"
    assert found.token
    assert found.token.read() == "first"
    assert found.ca == str(token_dir / "ca.crt")


def test_an_ipv6_service_address_is_bracketed(token_dir: Path) -> None:
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"}
    assert access.find("", "", str(token_dir), environ).address == "https://[fd00::1]:6443"


def test_the_error_for_a_missing_token_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"FB_TOKEN_DIR=.*automountServiceAccountToken"):
        access.find("", "", str(tmp_path), IN_CLUSTER)


def test_a_given_address_wins_over_the_clusters_own(token_dir: Path) -> None:
    assert access.find("https://other:1", "", str(token_dir), IN_CLUSTER).address == "https://other:1"


def test_no_token_travels_over_plain_http(token_dir: Path) -> None:
    assert access.find("http://127.0.0.1:8080", "", str(token_dir), {}).token is None


def test_without_any_address_the_three_ways_are_named(token_dir: Path) -> None:
    with pytest.raises(SettingsError, match=r"KUBE_APISERVER_ADDRESS.*KUBERNETES_SERVICE_HOST.*KUBECONFIG"):
        access.find("", "", str(token_dir), {})


def test_a_kubeconfig_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"KUBECONFIG=.*/absent"):
        access.find("", str(tmp_path / "absent"), str(tmp_path), {})


def test_the_namespace_is_the_service_accounts(token_dir: Path, tmp_path: Path) -> None:
    assert access.read_namespace(str(token_dir)) == "lab"
    assert access.read_namespace(str(tmp_path / "absent")) == "default"


STATUS = {"kind": "Status", "message": 'configmaps "x" is\nforbidden'}


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
@responses.activate
def test_each_answer_has_its_meaning_and_the_servers_own_words(code: int, kind: type[ApiError], text: str) -> None:
    responses.get("https://api/x", status=code, body=json.dumps(STATUS))
    with pytest.raises(kind) as caught:
        Api(Access("https://api")).get("/x")
    assert type(caught.value) is kind
    assert str(caught.value).startswith(text)


@pytest.mark.parametrize("body", ["", "{", "[]", "null", "[" * 100_000], ids=["empty", "half", "list", "null", "deep"])
@responses.activate
def test_an_answer_that_is_no_object_is_that_of_a_faulty_server(body: str) -> None:
    responses.get("https://api/x", body=body)
    with pytest.raises(UnavailableError):
        Api(Access("https://api")).get("/x")


@responses.activate
def test_a_request_carries_the_token_and_no_credentials_of_the_image(token_dir: Path, tmp_path: Path) -> None:
    responses.get("https://api/x", json={})
    Api(Access("https://api", Token(str(token_dir / "token")))).get("/x")
    sent = responses.calls[0].request.headers
    assert sent["Authorization"] == "Bearer first"
    assert sent["User-Agent"] == "frameworkbarrier"


@pytest.mark.parametrize(("value", "seconds"), [("7", 7.0), ("86400", 300.0), ("-1", None), ("soon", None)])
@responses.activate
def test_retry_after_is_read_with_care(value: str, seconds: float | None) -> None:
    responses.get("https://api/x", status=429, headers={"Retry-After": value})
    with pytest.raises(UnavailableError) as caught:
        Api(Access("https://api")).get("/x")
    assert caught.value.retry_after == seconds
