"""How the program starts: which cluster and user it finds, as kubectl does, and what it imports for that."""

import base64
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml
from structlog.testing import capture_logs

from frameworkclient.access import Impersonation, contexts, find
from frameworkclient.cli.run import guarded
from frameworkclient.errors import AccessError
from frameworkkube.log import Logger
from testkit.waiting import patience
from tests.client.broken import SOUND
from tests.support.kubeconfig import kubeconfig


def run(program: str, *words: str, **more: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program, *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, **more)


def test_contexts_are_listed_for_the_shell_and_give_the_namespace(tmp_path: Path) -> None:
    file = kubeconfig(tmp_path / "config")
    assert (contexts(file), contexts(str(tmp_path / "none"))) == (["bare", "home"], [])
    assert find(kubeconfig=file).namespace == "team"
    assert find(kubeconfig=file, context="bare").namespace == "default"


def test_the_file_is_the_flag_then_the_variable_with_one_or_several_then_that_of_the_home(tmp_path: Path) -> None:
    kubeconfig(tmp_path / ".kube" / "config", cluster={"server": "https://home:1"})
    named = kubeconfig(tmp_path / "named", cluster={"server": "https://named:1"})
    given = kubeconfig(tmp_path / "given", cluster={"server": "https://given:1"})
    environ = {"HOME": str(tmp_path), "KUBECONFIG": named}
    assert find(kubeconfig=given, environ=environ).endpoint.host == "given:1"
    assert find(environ=environ).endpoint.host == "named:1"
    assert find(environ={"HOME": str(tmp_path)}).endpoint.host == "home:1"
    first = kubeconfig(tmp_path / "first", users=[])
    second = kubeconfig(tmp_path / "second", contexts=[], clusters=[])
    found = find(environ={"KUBECONFIG": f"{first}:{tmp_path / 'missing'}:{second}"})
    assert (found.namespace, found.endpoint.authorization) == ("team", "Bearer secret")


def test_a_plain_kubeconfig_is_read_once(tmp_path: Path) -> None:
    program = (
        "import sys; from frameworkclient.access import find; opened = []\n"
        "sys.addaudithook(lambda event, what: opened.append(str(what[0])) if event == 'open' else None)\n"
        "find(kubeconfig=sys.argv[1]); print(opened.count(sys.argv[1]))"
    )
    assert run(program, kubeconfig(tmp_path / "config")).stdout == "1\n"


def test_impersonation_of_the_file_becomes_headers_survives_a_reload_and_gives_way_to_flags(tmp_path: Path) -> None:
    user = {"token": "secret", "as": "jane", "as-groups": ["a", "b"], "as-user-extra": {"example.org/team%": ["x"]}}
    file = kubeconfig(tmp_path / "config", user=user)
    endpoint = find(kubeconfig=file).endpoint
    groups = (("Impersonate-Group", "a"), ("Impersonate-Group", "b"))
    assert endpoint.headers == (("Impersonate-User", "jane"), *groups, ("Impersonate-Extra-example.org%2Fteam%25", "x"))
    assert endpoint.reload is not None
    assert endpoint.reload().headers == endpoint.headers
    found = find(kubeconfig=file, impersonate=Impersonation(user="joe", uid="7"))
    assert found.endpoint.headers == (("Impersonate-User", "joe"), ("Impersonate-Uid", "7"))


def test_a_pod_uses_its_service_account_and_namespace(tmp_path: Path) -> None:
    for name, text in (("token", "t"), ("ca.crt", "pem"), ("namespace", "jobs\n")):
        (tmp_path / name).write_text(text)
    found = find(environ={"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, root=tmp_path)
    assert (found.namespace, found.endpoint.host) == ("jobs", "10.0.0.1:443")


UNUSABLE: dict[str, dict[str, Any]] = {
    "--kubeconfig none: there is no such file": {"kubeconfig": "none"},
    "KUBECONFIG none: there is no such file": {"environ": {"KUBECONFIG": "none"}},
    "not a kubeconfig": {"kubeconfig": "text"},
    "Expected key name": {"kubeconfig": "users"},
    "config-text: context home: must be an object": {"kubeconfig": "config-text"},
    "user-text: user of home: must be an object": {"kubeconfig": "user-text"},
    "has no current-context; choose one with --context": {"kubeconfig": "current"},
    r"--context hom: .* did you mean home\? .there are: bare, home.": {"kubeconfig": "config", "context": "hom"},
    r"name one with --kubeconfig or KUBECONFIG, or create ~/\.kube/config": {"environ": {}},
    "--context a: there is no kubeconfig": {"context": "a", "environ": {}},
}


@pytest.mark.parametrize("message", UNUSABLE)
def test_what_gives_no_access_says_what_to_do(message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    kubeconfig(tmp_path / "config")
    kubeconfig(tmp_path / "current", **{"current-context": ""})
    kubeconfig(tmp_path / "users", users="nobody")
    kubeconfig(tmp_path / "config-text", contexts=[{"name": "home", "context": "text"}])
    kubeconfig(tmp_path / "user-text", users=[{"name": "u", "user": "text"}])
    (tmp_path / "text").write_text("- just\n- text\n")
    with pytest.raises(AccessError, match=message):
        find(**UNUSABLE[message])


ROOT = Path(__file__).parents[2]
COMMANDS = [f"cli.commands.{name}" for name in ("why", "doctor", "live", "offline", "reading", "writing")]
MODULES = ["aio", "client", "cli.picture", *COMMANDS]


COMMAND = "from frameworkclient.__main__ import main\nmain()"
ALL = "\n".join(f"import frameworkclient.{name}" for name in MODULES)
# A kubeconfig with a token needs no plugin, the flags of a list are text, and a list needs no watch and no log.
LIST = "list -n team -o wide --kubeconfig config"
OURS = "frameworkkube.informer.informer frameworkclient.diagnosis frameworkclient.logs.collector"
IMPORTED = {
    "help": (COMMAND, "--help", "typer", "aiohttp asyncio kubernetes msgspec pydantic rich structlog yaml"),
    "a list": (COMMAND, LIST, "aiohttp", f"jinja2 kubernetes pydantic requests rich structlog {OURS}"),
    "the package alone": ("import frameworkclient", "", "frameworkclient", "aiohttp kubernetes typer yaml"),
    "all of it": (ALL, "", "aiohttp", "re2 uvloop prometheus_client"),
}


@pytest.mark.parametrize(("program", "words", "needed", "others"), IMPORTED.values(), ids=IMPORTED)
def test_what_is_not_needed_is_not_imported(program: str, words: str, needed: str, others: str, tmp_path: Path) -> None:
    kubeconfig(tmp_path / "config")
    shown = f"import atexit, sys\natexit.register(lambda: print(*sys.modules, file=sys.stderr))\n{program}"
    found = set(run(shown, *words.split(), cwd=tmp_path).stderr.splitlines()[-1].split())
    assert needed in found
    assert found.isdisjoint(others.split())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_program_that_is_ended_leaves_no_key_in_the_temporary_folder(number: int, tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    issued = trustme.CA().issue_cert("jane")
    parts = {"certificate": issued.cert_chain_pems[0], "key": issued.private_key_pem}
    user = {f"client-{name}-data": base64.b64encode(pem.bytes()).decode() for name, pem in parts.items()}
    with socket.create_server(("127.0.0.1", 0)) as silent:
        cluster = {"server": f"https://127.0.0.1:{silent.getsockname()[1]}"}
        config = kubeconfig(tmp_path / "config", user=user, cluster=cluster)
        command = [sys.executable, "-c", COMMAND, "list", "--kubeconfig", config]
        # What runs these tests in the background may ignore the signal, and its children would, too.
        environ = {**os.environ, "TMPDIR": str(tmp_path / "tmp")}
        with subprocess.Popen(
            command,
            env=environ,
            preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # noqa: PLW1509 -- it only resets a signal
        ) as process:
            silent.settimeout(patience(30))
            with silent.accept()[0]:
                assert len(list((tmp_path / "tmp").iterdir())) == len(parts)
                process.send_signal(number)
                assert process.wait(patience(30)) == 128 + number
    assert not list((tmp_path / "tmp").iterdir())


def test_a_system_without_modules_of_posix_can_do_what_needs_none(tmp_path: Path) -> None:
    (tmp_path / "f.yaml").write_text(yaml.safe_dump(SOUND))
    absent = "import sys\nfor name in 'fcntl grp pwd resource termios'.split(): sys.modules[name] = None"
    imports = f"{ALL}\nimport frameworkclient.code, frameworkclient.logs.collector, frameworkclient.cluster.again"
    most = "from frameworkclient.logs.container import most_connections\nassert most_connections() == 1024"
    done = run(f"{absent}\n{imports}\n{most}\n{COMMAND}", "lint", "-f", str(tmp_path / "f.yaml"))
    assert (done.returncode, done.stderr) == (0, "1 Framework, no problems\n")


CLIENT = "frameworkkube.extras import client"
WITHOUT = {
    "typer": (CLIENT, "client"),
    "msgspec": (CLIENT, "client"),
    "uvloop": ("frameworkkube.extras import controller", "controller"),
    "aiohttp": ("frameworkkube.extras import injector", "injector"),
    "requests": ("frameworkbarrier.__main__ import program", "barrier"),
}


@pytest.mark.parametrize("package", WITHOUT)
def test_a_program_without_its_extra_says_which_it_is(package: str, tmp_path: Path) -> None:
    start, extra = WITHOUT[package]
    barrier = {"FB_SELECTOR": "a=b", "FB_ROLES": "worker=1", "FB_OUTPUT_DIR": str(tmp_path)}
    cluster = {"KUBE_APISERVER_ADDRESS": "http://127.0.0.1:1", "BARRIER_CHECK_TIMEOUT_SEC": "5"}
    statement = f"import sys\nsys.modules['{package}'] = None\nfrom {start} as start\nstart()"
    words = ["lint", "-f", "-"] if extra == "client" else []
    done = run(statement, *words, env={**os.environ, **barrier, **cluster}, input="kind: Framework")
    assert done.returncode == 1
    assert f"the package {package} is missing: pip install 'frameworkcontroller[{extra}]'" in done.stderr


@pytest.mark.long
def test_the_oldest_client_of_kubernetes_that_the_extra_takes_is_enough(tmp_path: Path) -> None:
    oldest = re.search(r'"(kubernetes)>=(\d+),', (ROOT / "pyproject.toml").read_text())
    assert oldest is not None
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(tmp_path)]
    subprocess.run([*pip, f"kubernetes=={oldest[2]}.*"], check=True)
    environ = {**os.environ, "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"}
    suites = ["tests/kube/http/test_credentials.py", "tests/client/test_start.py", "tests/client/checks/test_lint.py"]
    tests = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *suites]
    done = subprocess.run(tests, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_extra_has_what_the_checks_import() -> None:
    locked = re.findall(r"^([a-z0-9-]+)==", (ROOT / "requirements" / "client.txt").read_text(), re.MULTILINE)
    packages = "aiohttp google-re2 jinja2 kubernetes msgspec pyyaml rich structlog tenacity typer"
    assert set(packages.split()) <= set(locked)


def test_the_first_line_of_a_log_is_one_of_the_command_line(tmp_path: Path) -> None:
    done = run(COMMAND, "list", "--kubeconfig", kubeconfig(tmp_path / "config", user={}))
    first, second = done.stderr.splitlines()
    assert first == "frameworkctl: warning: the kubeconfig has no credentials, requests are anonymous"
    assert second.startswith("frameworkctl: cannot list Frameworks of namespace team: ")
    assert (done.stdout, done.returncode) == ("", 1)


def test_a_command_that_writes_no_line_leaves_the_log_of_its_process_alone() -> None:
    assert guarded(lambda: None) == 0
    with capture_logs() as logs:
        Logger("a").warning("found")
    assert [one["event"] for one in logs] == ["found"]
