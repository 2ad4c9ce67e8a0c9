"""The cluster and the user are found as kubectl finds them."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from frameworkclient.access import Impersonation, contexts, find
from frameworkclient.errors import AccessError

if TYPE_CHECKING:
    from pathlib import Path


def kubeconfig(path: Path, **more: Any) -> str:
    user = more.pop("user", {"token": "secret"})
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1", **more.pop("cluster", {})}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [
            {"name": "home", "context": {"cluster": "c", "user": "u", "namespace": "team"}},
            {"name": "bare", "context": {"cluster": "c", "user": "u"}},
        ],
        "current-context": "home",
        **more,
    }
    path.write_text(yaml.safe_dump(config))
    return str(path)


def test_the_namespace_is_that_of_the_context(tmp_path: Path) -> None:
    file = kubeconfig(tmp_path / "config")
    assert find(kubeconfig=file).namespace == "team"
    assert find(kubeconfig=file, context="bare").namespace == "default"


def test_the_file_is_the_flag_then_the_variable_then_that_of_the_home(tmp_path: Path) -> None:
    (tmp_path / ".kube").mkdir()
    kubeconfig(tmp_path / ".kube" / "config", cluster={"server": "https://home:1"})
    named = kubeconfig(tmp_path / "named", cluster={"server": "https://named:1"})
    given = kubeconfig(tmp_path / "given", cluster={"server": "https://given:1"})
    environ = {"HOME": str(tmp_path), "KUBECONFIG": named}
    assert find(kubeconfig=given, environ=environ).endpoint.host == "given:1"
    assert find(environ=environ).endpoint.host == "named:1"
    assert find(environ={"HOME": str(tmp_path)}).endpoint.host == "home:1"


def test_a_plain_kubeconfig_is_read_once(tmp_path: Path) -> None:
    program = (
        "import sys; from frameworkclient.access import find; opened = []\n"
        "sys.addaudithook(lambda event, what: opened.append(str(what[0])) if event == 'open' else None)\n"
        "find(kubeconfig=sys.argv[1]); print(opened.count(sys.argv[1]))"
    )
    command = [sys.executable, "-c", program, kubeconfig(tmp_path / "config")]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "1\n"


def test_several_files_are_one_kubeconfig(tmp_path: Path) -> None:
    first = kubeconfig(tmp_path / "first", users=[])
    second = kubeconfig(tmp_path / "second", contexts=[], clusters=[])
    found = find(environ={"KUBECONFIG": f"{first}:{tmp_path / 'missing'}:{second}"})
    assert (found.namespace, found.endpoint.authorization) == ("team", "Bearer secret")


def test_impersonation_of_the_kubeconfig_becomes_headers_and_survives_a_reload(tmp_path: Path) -> None:
    user = {"token": "secret", "as": "jane", "as-groups": ["a", "b"], "as-user-extra": {"scopes": ["x"]}}
    endpoint = find(kubeconfig=kubeconfig(tmp_path / "config", user=user)).endpoint
    expected = (
        ("Impersonate-User", "jane"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
        ("Impersonate-Extra-scopes", "x"),
    )
    assert endpoint.headers == expected
    assert endpoint.reload is not None
    assert endpoint.reload().headers == expected


def test_impersonation_by_flags_takes_the_place_of_that_of_the_kubeconfig(tmp_path: Path) -> None:
    file = kubeconfig(tmp_path / "config", user={"token": "secret", "as": "jane"})
    found = find(kubeconfig=file, impersonate=Impersonation(user="joe", uid="7"))
    assert found.endpoint.headers == (("Impersonate-User", "joe"), ("Impersonate-Uid", "7"))


def test_a_pod_uses_its_service_account_and_namespace(tmp_path: Path) -> None:
    for name, text in (("token", "t"), ("ca.crt", "pem"), ("namespace", "jobs\n")):
        (tmp_path / name).write_text(text)
    found = find(environ={"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, root=tmp_path)
    assert (found.namespace, found.endpoint.host) == ("jobs", "10.0.0.1:443")


UNUSABLE: dict[str, tuple[dict[str, Any], str]] = {
    "no such file": ({"kubeconfig": "none"}, "--kubeconfig none: there is no such file"),
    "no such file of the variable": ({"environ": {"KUBECONFIG": "none"}}, "KUBECONFIG none: there is no such file"),
    "text": ({"kubeconfig": "text"}, "not a kubeconfig"),
    "users": ({"kubeconfig": "users"}, "Expected key name"),
    "current": ({"kubeconfig": "current"}, "has no current-context; choose one with --context"),
    "context": (
        {"kubeconfig": "config", "context": "hom"},
        r"--context hom: .* has no such context; did you mean home\? .there are: bare, home.",
    ),
    "nothing": ({"environ": {}}, r"name one with --kubeconfig or KUBECONFIG, or create ~/\.kube/config"),
    "a context of nothing": ({"context": "a", "environ": {}}, "--context a: there is no kubeconfig"),
}


@pytest.mark.parametrize(("arguments", "message"), UNUSABLE.values(), ids=UNUSABLE)
def test_what_gives_no_access_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: dict[str, Any], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    kubeconfig(tmp_path / "config")
    kubeconfig(tmp_path / "current", **{"current-context": ""})
    kubeconfig(tmp_path / "users", users="nobody")
    (tmp_path / "text").write_text("- just\n- text\n")
    with pytest.raises(AccessError, match=message):
        find(**arguments)


def test_contexts_are_listed_for_the_shell(tmp_path: Path) -> None:
    assert contexts(kubeconfig(tmp_path / "config")) == ["bare", "home"]
    assert contexts(str(tmp_path / "none")) == []
