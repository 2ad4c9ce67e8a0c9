import json
from pathlib import Path

import pytest
import responses

from frameworkbarrier.errors import SettingsError
from frameworkbarrier.source import access
from frameworkbarrier.source.access import Access
from frameworkbarrier.source.api import Api, ApiError, ExpiredError, ForbiddenError, NotFoundError, UnavailableError

IN_CLUSTER = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}


def test_the_clusters_own_address_comes_with_the_service_account(token_dir: Path) -> None:
    (token_dir / "ca.crt").write_text("CA")
    found = access.find("", "/ignored", str(token_dir), IN_CLUSTER)
    assert found.address == "https://10.96.0.1:443"
    assert found.token
    assert found.token.read() == "first"
    assert found.ca == str(token_dir / "ca.crt")


@pytest.mark.parametrize(
    ("given", "environ", "address"),
    [
        ("", IN_CLUSTER, "https://10.96.0.1:443"),
        ("", {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"}, "https://[fd00::1]:6443"),
        ("https://other:1", IN_CLUSTER, "https://other:1"),
    ],
    ids=["the cluster's own", "an IPv6 address in brackets", "a given one wins"],
)
def test_the_address(token_dir: Path, given: str, environ: dict[str, str], address: str) -> None:
    assert access.find(given, "", str(token_dir), environ).address == address


def test_no_token_travels_over_plain_http(token_dir: Path) -> None:
    assert access.find("http://127.0.0.1:8080", "", str(token_dir), {}).token is None


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


@pytest.mark.parametrize(("value", "seconds"), [("7", 7.0), ("86400", 300.0), ("-1", None), ("soon", None)])
@responses.activate
def test_retry_after_is_read_with_care(value: str, seconds: float | None) -> None:
    responses.get("https://api/x", status=429, headers={"Retry-After": value})
    with pytest.raises(UnavailableError) as caught:
        Api(Access("https://api")).get("/x")
    assert caught.value.retry_after == seconds
