"""What a command imports: no more than it needs, and nothing that the extra `client` does not install."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from structlog.testing import capture_logs

from frameworkclient.cli.run import guarded
from frameworkkube.log import Logger
from tests.client.broken import SOUND
from tests.client.test_access import kubeconfig

ROOT = Path(__file__).parents[2]
COMMANDS = [f"cli.commands.{name}" for name in ("why", "doctor", "live", "offline", "reading", "writing")]
MODULES = ["aio", "client", "cli.picture", *COMMANDS]


def imported(statement: str) -> set[str]:
    """The top-level packages that a fresh interpreter has imported after a statement."""
    program = f"{statement}\nimport sys\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


def imported_by(*words: str) -> set[str]:
    """The modules that a command has imported at its end."""
    program = (
        "import sys\nfrom frameworkclient.__main__ import main\n"
        "try:\n    main()\nfinally:\n    print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, check=False)
    return set(done.stderr.splitlines()[-1].split())


def test_help_waits_for_no_library_but_typer() -> None:
    found = imported_by("--help")
    assert "typer" in found
    assert {"aiohttp", "asyncio", "kubernetes", "msgspec", "pydantic", "rich", "structlog", "yaml"}.isdisjoint(found)


def test_a_list_waits_for_nothing_but_its_request(tmp_path: Path) -> None:
    """A kubeconfig with a token needs no plugin, the flags of a list are text, and a list needs no watch and no log."""
    found = imported_by("list", "-n", "team", "-o", "wide", "--kubeconfig", kubeconfig(tmp_path / "config"))
    assert "aiohttp" in found
    assert {"jinja2", "kubernetes", "pydantic", "requests", "rich", "structlog"}.isdisjoint(found)
    ours = {"frameworkkube.informer.informer", "frameworkclient.diagnosis", "frameworkclient.logs.collector"}
    assert ours.isdisjoint(found)


def test_the_package_itself_imports_nothing_until_it_is_used() -> None:
    assert {"aiohttp", "kubernetes", "typer", "yaml"}.isdisjoint(imported("import frameworkclient"))


def test_nothing_of_the_other_extras_is_needed() -> None:
    statement = "\n".join(f"import frameworkclient.{name}" for name in MODULES)
    assert {"re2", "uvloop", "prometheus_client"}.isdisjoint(imported(statement))


def test_a_system_without_modules_of_posix_can_do_what_needs_none(tmp_path: Path) -> None:
    (tmp_path / "f.yaml").write_text(yaml.safe_dump(SOUND))
    absent = "import sys\nfor name in 'fcntl grp pwd resource termios'.split(): sys.modules[name] = None"
    imports = "\n".join(
        f"import frameworkclient.{name}" for name in (*MODULES, "code", "logs.collector", "cluster.keeping")
    )
    run = "from frameworkclient.logs.container import most_connections\nassert most_connections() == 1024\n"
    program = f"{absent}\n{imports}\n{run}from frameworkclient.__main__ import main\nmain()"
    words = ["lint", "-f", str(tmp_path / "f.yaml")]
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "1 Framework, no problems\n")


@pytest.mark.parametrize(
    ("start", "package", "extra"),
    [
        ("frameworkkube.extras import client as start", "typer", "client"),
        ("frameworkkube.extras import client as start", "msgspec", "client"),
        ("frameworkkube.extras import controller as start", "uvloop", "controller"),
        ("frameworkkube.extras import injector as start", "aiohttp", "injector"),
        ("frameworkbarrier.__main__ import program as start", "requests", "barrier"),
    ],
)
def test_a_program_without_its_extra_says_which_it_is(start: str, package: str, extra: str, tmp_path: Path) -> None:
    environ = {
        **os.environ,
        "FB_SELECTOR": "a=b",
        "FB_ROLES": "worker=1",
        "FB_OUTPUT_DIR": str(tmp_path),
        "KUBE_APISERVER_ADDRESS": "http://127.0.0.1:1",
        "BARRIER_CHECK_TIMEOUT_SEC": "5",
    }
    statement = f"import sys\nsys.modules['{package}'] = None\nfrom {start}\nstart()"
    command = [sys.executable, "-c", statement, *(["lint", "-f", "-"] if extra == "client" else [])]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environ, input="kind: Framework")
    assert done.returncode == 1
    assert f"the package {package} is missing: pip install 'frameworkcontroller[{extra}]'" in done.stderr


@pytest.mark.long
def test_the_oldest_client_of_kubernetes_that_the_extra_takes_is_enough(tmp_path: Path) -> None:
    oldest = re.search(r'"(kubernetes)>=(\d+),', (ROOT / "pyproject.toml").read_text())
    assert oldest is not None
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(tmp_path)]
    subprocess.run([*pip, f"kubernetes=={oldest[2]}.*"], check=True)
    environ = {**os.environ, "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"}
    suites = ["tests/kube/test_credentials.py", "tests/client/test_access.py"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *suites, "tests/client/test_lint.py"],
        cwd=ROOT,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_the_extra_has_what_the_checks_import() -> None:
    locked = re.findall(r"^([a-z0-9-]+)==", (ROOT / "requirements" / "client.txt").read_text(), re.MULTILINE)
    packages = "aiohttp google-re2 jinja2 kubernetes msgspec pyyaml rich structlog tenacity typer"
    assert set(packages.split()) <= set(locked)


def test_the_first_line_of_a_log_is_one_of_the_command_line(tmp_path: Path) -> None:
    config = kubeconfig(tmp_path / "config", user={})
    command = [sys.executable, "-m", "frameworkclient", "list", "--kubeconfig", config]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    first, second = done.stderr.splitlines()
    assert first == "frameworkctl: warning: the kubeconfig has no credentials, requests are anonymous"
    assert second.startswith("frameworkctl: cannot list Frameworks of namespace team: ")
    assert (done.stdout, done.returncode) == ("", 1)


def test_a_command_that_writes_no_line_leaves_the_log_of_its_process_alone() -> None:
    assert guarded(lambda: None) == 0
    with capture_logs() as logs:
        Logger("a").warning("found")
    assert [one["event"] for one in logs] == ["found"]
