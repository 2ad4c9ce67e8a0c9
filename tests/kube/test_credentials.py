"""Where the server is, and with which credentials."""

import json
from pathlib import Path

import pytest

from frameworkkube.errors import CredentialsError
from frameworkkube.http.credentials import Endpoint, discover, from_kubeconfig, in_cluster

IN_POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "6443"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "token").write_text("pod-token")
    (tmp_path / "ca.crt").write_text("pem")
    return tmp_path


def kubeconfig(path: Path, *, server: str = "https://127.0.0.1:1", user: dict[str, object] | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": server, "insecure-skip-tls-verify": True}}],
        "users": [{"name": "u", "user": user if user is not None else {"token": "secret"}}],
        "contexts": [{"name": "k", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "k",
    }
    path.write_text(json.dumps(config))
    return path


def test_a_pod_uses_its_service_account(root: Path) -> None:
    endpoint = in_cluster(root, IN_POD)
    assert endpoint == Endpoint("https://10.0.0.1:6443", ca_file=root / "ca.crt", token_file=root / "token")


def test_an_ipv6_service_address_gets_brackets(root: Path) -> None:
    endpoint = in_cluster(root, {"KUBERNETES_SERVICE_HOST": "fd00::1"})
    assert (endpoint.server, endpoint.host) == ("https://[fd00::1]:443", "[fd00::1]:443")


@pytest.mark.parametrize("missing", ["token", "ca.crt"])
def test_a_missing_mounted_file_is_named(root: Path, missing: str) -> None:
    (root / missing).unlink()
    with pytest.raises(CredentialsError, match=f"{missing} does not exist"):
        in_cluster(root, IN_POD)


def test_outside_a_pod_the_variable_is_named(root: Path) -> None:
    with pytest.raises(CredentialsError, match="KUBERNETES_SERVICE_HOST is not set"):
        in_cluster(root, {})


NO_URLS = ("", "10.0.0.1:6443", "ftp://a", "https://", "https://a?b=c", "https://a#b")
UNREADABLE = ("https://a:99999", "https://[::1", "https://a..b")


@pytest.mark.parametrize("server", [*NO_URLS, *UNREADABLE])
def test_an_address_must_be_a_url(server: str) -> None:
    with pytest.raises(CredentialsError, match="API server address: expected"):
        Endpoint(server)


def test_a_password_in_an_address_is_refused_without_showing_it() -> None:
    with pytest.raises(CredentialsError, match="must not contain a user or a password") as caught:
        Endpoint("https://user:secret@a:1")
    assert "secret" not in str(caught.value)


def test_a_certificate_needs_its_key(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match="certificate and key are needed together"):
        Endpoint("https://a", client_certificate_file=tmp_path)


def test_secrets_do_not_show_in_logs() -> None:
    assert repr(Endpoint("https://a/", authorization="Bearer secret")) == "Endpoint(server='https://a')"


def test_a_kubeconfig_gives_server_and_token(tmp_path: Path) -> None:
    endpoint = from_kubeconfig(kubeconfig(tmp_path / "config"))
    assert (endpoint.server, endpoint.authorization, endpoint.verify) == ("https://127.0.0.1:1", "Bearer secret", False)


def test_a_kubeconfig_gives_client_certificates(tmp_path: Path) -> None:
    files = {"client-certificate": str(tmp_path / "c.pem"), "client-key": str(tmp_path / "k.pem")}
    for file in files.values():
        Path(file).write_text("pem")
    endpoint = from_kubeconfig(kubeconfig(tmp_path / "config", user=files))
    assert endpoint.client_certificate_file == tmp_path / "c.pem"
    assert endpoint.client_key_file == tmp_path / "k.pem"


def test_proxies_of_the_environment_are_used_unless_it_excludes_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    monkeypatch.setenv("NO_PROXY", "10.0.0.0/8,.internal")
    for server, proxy in (("https://1.2.3.4", "http://proxy:3128"), ("https://api.internal:6443", None)):
        assert from_kubeconfig(kubeconfig(tmp_path / "config", server=server)).proxy == proxy


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


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", "a: b: c", "\x00", '{"current-context":"x","contexts":[]}', '{"contexts": 3}', '"text"']
)
def test_a_broken_kubeconfig_is_named(tmp_path: Path, content: str) -> None:
    path = tmp_path / "config"
    path.write_text(content)
    with pytest.raises(CredentialsError, match=f"kubeconfig {path}: "):
        from_kubeconfig(path)


def test_a_missing_kubeconfig_or_context_is_named(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match="nothing"):
        from_kubeconfig(tmp_path / "nothing")
    with pytest.raises(CredentialsError, match="other"):
        from_kubeconfig(kubeconfig(tmp_path / "config"), "other")


def test_the_search_order_is_that_of_the_reference(tmp_path: Path, root: Path) -> None:
    given = kubeconfig(tmp_path / "given", server="https://given")
    named = kubeconfig(tmp_path / "named", server="https://named")
    kubeconfig(tmp_path / "home/.kube/config", server="https://home")
    environ = IN_POD | {"KUBECONFIG": str(named), "HOME": str(tmp_path / "home")}
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
    environ = {
        "a kubeconfig": {"KUBECONFIG": str(kubeconfig(tmp_path / "given"))},
        "the one at home": {"HOME": str(kubeconfig(tmp_path / ".kube/config").parents[1])},
        "the service account": IN_POD,
    }[source]
    address = "HTTP://proxy:8001" if source == "a kubeconfig" else "http://proxy:8001"
    if variable:
        found = discover(environ={**environ, "KUBE_APISERVER_ADDRESS": address}, root=root)
    else:
        found = discover(address=address, environ=environ, root=root)
    assert found == Endpoint(address)


@pytest.mark.parametrize("address", ["http://proxy:8001", "https://proxy:8443"])
def test_an_address_works_in_a_pod_that_mounts_no_token(tmp_path: Path, address: str) -> None:
    assert discover(address=address, environ=IN_POD, root=tmp_path) == Endpoint(address)
