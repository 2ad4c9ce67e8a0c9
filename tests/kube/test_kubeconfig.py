"""A plain kubeconfig means what the official client takes it to mean; any other is left to that."""

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

from frameworkkube.http.credentials import Endpoint, from_kubeconfig
from frameworkkube.http.kubeconfig import plain
from tests.kube.kubeconfigs import kubeconfig

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
    return lambda **content: str(kubeconfig(tmp_path / "config", **content))


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
    "unknown user": {"current-context": "other"},
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
        "key = found[0].client_key_file\n"
        "mode = oct(os.stat(key).st_mode & 0o777)\n"
        "print(json.dumps([str(key), mode, found[0] == found[1], 'kubernetes' in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", program, file], capture_output=True, text=True, check=True)
    key, mode, same, official = json.loads(done.stdout)
    assert (mode, same, official) == ("0o600", True, False)
    assert not Path(key).exists()
