"""Where the server is, and with which credentials; a plain kubeconfig means what the official client reads."""

import base64
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from frameworkkube.errors import CredentialsError
from frameworkkube.http.credentials import Endpoint, discover, from_kubeconfig, in_cluster
from frameworkkube.http.kubeconfig import plain
from tests.support.kubeconfig import kubeconfig

IN_POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "6443"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "token").write_text("pod-token")
    (tmp_path / "ca.crt").write_text("pem")
    return tmp_path


@pytest.mark.parametrize(
    ("environ", "host"),
    [(IN_POD, "10.0.0.1:6443"), ({"KUBERNETES_SERVICE_HOST": "fd00::1"}, "[fd00::1]:443")],
    ids=["IPv4", "IPv6 gets brackets"],
)
def test_a_pod_uses_its_service_account(root: Path, environ: dict[str, str], host: str) -> None:
    endpoint = in_cluster(root, environ)
    assert endpoint == Endpoint(f"https://{host}", ca_file=root / "ca.crt", token_file=root / "token")
    assert endpoint.host == host


@pytest.mark.parametrize("missing", ["token", "ca.crt"])
def test_a_missing_mounted_file_is_named(root: Path, missing: str) -> None:
    (root / missing).unlink()
    with pytest.raises(CredentialsError, match=f"{missing} does not exist"):
        in_cluster(root, IN_POD)


def test_outside_a_pod_the_variable_is_named(root: Path) -> None:
    with pytest.raises(CredentialsError, match="KUBERNETES_SERVICE_HOST is not set"):
        in_cluster(root, {})


UNREADABLE = ("https://a:99999", "https://[::1", "https://a..b")
NO_URLS = ("", "10.0.0.1:6443", "ftp://a", "https://", "https://a?b=c", "https://a#b", *UNREADABLE)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        *(({"server": server}, "API server address: expected") for server in NO_URLS),
        ({"server": "https://user:secret@a:1"}, "must not contain a user or a password"),
        ({"server": "https://a", "client_certificate_file": Path("c")}, "certificate and key are needed together"),
        ({"server": "https://a", "proxy": "socks5://user:secret@b:1"}, r"^proxy \(proxy-url .*: expected http\[s\]://"),
    ],
)
def test_an_endpoint_that_cannot_work_is_refused_without_showing_a_password(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(CredentialsError, match=words) as caught:
        Endpoint(**fields)
    assert "secret" not in str(caught.value)


def test_secrets_do_not_show_in_logs() -> None:
    assert repr(Endpoint("https://a/", authorization="Bearer secret")) == "Endpoint(server='https://a')"


def test_proxies_of_the_environment_are_used_or_excluded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    monkeypatch.setenv("NO_PROXY", "10.0.0.0/8,.internal")
    for server, proxy in (("https://1.2.3.4", "http://proxy:3128"), ("https://api.internal:6443", None)):
        assert from_kubeconfig(kubeconfig(tmp_path / "config", cluster={"server": server})).proxy == proxy


def test_an_exec_plugin_is_run_again_on_reload(tmp_path: Path) -> None:
    count, plugin = tmp_path / "count", tmp_path / "plugin"
    credential = '{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{"token":"t%s"}}'
    plugin.write_text(f"#!/bin/sh\necho x >> {count}\nprintf '{credential}' $(wc -l < {count})\n")
    plugin.chmod(0o755)
    run = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin), "interactiveMode": "Never"}
    endpoint = from_kubeconfig(kubeconfig(tmp_path / "config", user={"exec": run}))
    assert endpoint.authorization == "Bearer t1"
    assert endpoint.reload is not None
    assert endpoint.reload().authorization == "Bearer t2"


def test_a_token_of_a_file_that_ends_with_a_newline_is_one(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret\n")
    file = kubeconfig(tmp_path / "config", user={"tokenFile": str(tmp_path / "token")})
    assert from_kubeconfig(file).authorization == "Bearer secret"


BROKEN = ("", "[]", "{}", "a: b: c", "\x00", '{"current-context":"x","contexts":[]}', '{"contexts": 3}', '"text"')


@pytest.mark.parametrize("content", [*BROKEN, "[" * 5000], ids=[*BROKEN, "deep"])
def test_a_broken_kubeconfig_is_named(tmp_path: Path, content: str) -> None:
    path = tmp_path / "config"
    path.write_text(content)
    with pytest.raises(CredentialsError, match=f"kubeconfig {path}: "):
        from_kubeconfig(path)


def test_a_missing_kubeconfig_or_context_is_named(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match="nothing"):
        from_kubeconfig(tmp_path / "nothing")
    with pytest.raises(CredentialsError, match="another"):
        from_kubeconfig(kubeconfig(tmp_path / "config"), "another")


def test_the_search_order_is_that_of_the_reference(tmp_path: Path, root: Path) -> None:
    given = kubeconfig(tmp_path / "given", cluster={"server": "https://given"})
    named = kubeconfig(tmp_path / "named", cluster={"server": "https://named"})
    kubeconfig(tmp_path / "home/.kube/config", cluster={"server": "https://home"})
    environ = IN_POD | {"KUBECONFIG": named, "HOME": str(tmp_path / "home")}
    assert discover(kubeconfig=given, environ=environ, root=root).server == "https://given"
    assert discover(environ=environ, root=root).server == "https://named"
    del environ["KUBECONFIG"]
    assert discover(environ=environ, root=root).server == "https://home"
    environ["HOME"] = str(tmp_path / "elsewhere")
    assert discover(environ=environ, root=root).server == "https://10.0.0.1:6443"
    with pytest.raises(CredentialsError, match="set kubeApiServerAddress or kubeConfigFilePath"):
        discover(environ={"HOME": environ["HOME"]}, root=root)


def test_an_address_replaces_the_server_and_keeps_the_credentials(tmp_path: Path, root: Path) -> None:
    given = kubeconfig(tmp_path / "given")
    found = discover(address="https://a:1", kubeconfig=given, environ={})
    assert (found.server, found.authorization) == ("https://a:1", "Bearer secret")
    assert found.reload is not None
    assert found.reload().server == "https://a:1"
    found = discover(address="https://a:1", environ=IN_POD, root=root)
    assert (found.server, found.token_file) == ("https://a:1", root / "token")
    assert discover(environ={"KUBE_APISERVER_ADDRESS": "http://b:1"}) == Endpoint("http://b:1")


@pytest.mark.parametrize("variable", [True, False], ids=["by the environment", "by the configuration"])
@pytest.mark.parametrize("source", ["a kubeconfig", "the one at home", "the service account"])
def test_credentials_are_never_sent_over_plain_http(tmp_path: Path, root: Path, source: str, *, variable: bool) -> None:
    kubeconfig(tmp_path / ".kube/config")
    environ = {
        "a kubeconfig": {"KUBECONFIG": kubeconfig(tmp_path / "given")},
        "the one at home": {"HOME": str(tmp_path)},
        "the service account": IN_POD,
    }[source]
    address = "HTTP://proxy:8001" if source == "a kubeconfig" else "http://proxy:8001"
    named = environ | ({"KUBE_APISERVER_ADDRESS": address} if variable else {})
    assert discover(address=None if variable else address, environ=named, root=root) == Endpoint(address)


@pytest.mark.parametrize("address", ["http://proxy:8001", "https://proxy:8443"])
def test_an_address_works_in_a_pod_that_mounts_no_token(tmp_path: Path, address: str) -> None:
    assert discover(address=address, environ=IN_POD, root=tmp_path) == Endpoint(address)


# --- plain kubeconfigs -----------------------------------------------------------------------------------------------


CERTIFICATE = {"client-certificate": "tls/c.pem", "client-key": "tls/k.pem"}


def data(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., str]:
    """Writes a kubeconfig beside files that it may name."""
    (tmp_path / "tls").mkdir()
    for name in ("ca", "c", "k"):
        (tmp_path / "tls" / f"{name}.pem").write_text(f"{name} of a file")
    return lambda **content: kubeconfig(tmp_path / "config", **content)


def said(endpoint: Endpoint) -> dict[str, Any]:
    """What an endpoint says, with the content of its files."""
    values = {one.name: getattr(endpoint, one.name) for one in fields(endpoint) if one.name != "reload"}
    return {name: value.read_text() if name.endswith("_file") and value else value for name, value in values.items()}


PLAIN: dict[str, dict[str, Any]] = {
    "token": {},
    "authority": {"cluster": {"certificate-authority": "tls/ca.pem", "tls-server-name": "api.internal"}},
    "authority as data": {"cluster": {"certificate-authority-data": data("ca")}},
    "data wins over a file": {
        "cluster": {"certificate-authority": "tls/ca.pem", "certificate-authority-data": data("ca")}
    },
    "unverified": {"cluster": {"insecure-skip-tls-verify": True, "extensions": [{"name": "x"}]}},
    "certificate": {"user": CERTIFICATE},
    "certificate as data": {"user": {"client-certificate-data": data("c"), "client-key-data": data("k")}},
    "certificate and token": {"user": CERTIFICATE | {"token": "t", "as": "jane"}},
}


@pytest.mark.parametrize("content", PLAIN.values(), ids=PLAIN)
def test_a_plain_kubeconfig_means_what_the_official_client_reads(
    write: Callable[..., str], content: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(**content)
    assert plain(file, None) is not None
    ours = said(from_kubeconfig(file))
    monkeypatch.setattr("frameworkkube.http.kubeconfig.plain", lambda *_, **__: None)
    assert ours == said(from_kubeconfig(file))


OTHERS: dict[str, dict[str, Any]] = {
    "exec": {"user": {"exec": {"command": "x"}}},
    "provider": {"user": {"auth-provider": {"name": "oidc"}}},
    "password": {"user": {"username": "u", "password": "p"}},
    "token of a file": {"user": {"tokenFile": "t"}},
    "nothing": {"user": {}},
    "no text": {"user": {"token": 7}},
    "certificate without key": {"user": {"client-certificate": "tls/c.pem"}},
    "missing file": {"user": CERTIFICATE | {"client-key": "tls/none.pem"}},
    "not base64": {"cluster": {"certificate-authority-data": "%"}},
    "empty data": {"cluster": {"certificate-authority-data": ""}},
    "http": {"cluster": {"server": "http://127.0.0.1:1"}},
    "no server": {"cluster": {"server": None}},
    "proxy": {"cluster": {"proxy-url": "http://p:1"}},
    "unknown field": {"cluster": {"disable-compression": True}},
    "no truth value": {"cluster": {"insecure-skip-tls-verify": "yes"}},
    "no context": {"current-context": "none"},
    "unknown user": {"users": [{"name": "nobody", "user": {"token": "a"}}]},
    "no list": {"users": "nobody"},
    "twice": {"users": [{"name": "u", "user": {"token": "a"}}] * 2},
    "no name": {"users": [{"user": {"token": "a"}}]},
    "no user": {"users": [{"name": "u"}]},
}


@pytest.mark.parametrize("content", OTHERS.values(), ids=OTHERS)
def test_what_is_not_plain_is_left_to_the_official_client(write: Callable[..., str], content: dict[str, Any]) -> None:
    assert plain(write(**content), None) is None


def test_several_files_missing_ones_and_proxies_are_left_to_the_official_client(write: Callable[..., str]) -> None:
    file = write()
    assert plain(f"{file}:{file}", None) is None
    assert plain(f"{file}.none", None) is None
    assert plain(file, None, {"https_proxy": "http://p:1"}) is None
    assert plain(file, None, {"https_proxy": ""}) is not None


def test_data_is_written_where_only_the_user_reads_it_and_is_gone_with_the_process(write: Callable[..., str]) -> None:
    file = write(user={"client-certificate-data": data("c"), "client-key-data": data("k")})
    program = (
        "import json, os, sys; from frameworkkube.http import kubeconfig\n"
        "found = [kubeconfig.plain(sys.argv[1], None) for _ in range(2)]\n"
        "key = found[0]['client_key_file']\n"
        "mode = oct(os.stat(key).st_mode & 0o777)\n"
        "print(json.dumps([str(key), mode, found[0] == found[1], 'kubernetes' in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", program, file], capture_output=True, text=True, check=True)
    key, mode, same, official = json.loads(done.stdout)
    assert (mode, same, official) == ("0o600", True, False)
    assert not Path(key).exists()
