"""The commands that need no cluster, and what commands say about wrong flags."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import pytest
import shellingham
import structlog
import yaml
from typer.testing import CliRunner

from frameworkclient import Framework
from frameworkclient.cli.app import app
from frameworkclient.cli.run import complete_context
from frameworkclient.cli.terminal import colours_for, program
from tests.client.broken import SOUND
from tests.support.frameworkctl import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def ctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Outcome]]:
    """Runs commands in this process, without a kubeconfig, in a folder of one file."""
    (tmp_path / "sound.yaml").write_text(yaml.safe_dump_all([{"kind": "ConfigMap"}, SOUND]))
    (tmp_path / "placed.yaml").write_text(yaml.safe_dump(SOUND | {"metadata": {"name": "a", "namespace": "demo"}}))
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    for name in ("KUBECONFIG", "HOME", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.argv", ["frameworkctl"])

    def run(*args: str, stdin: str = "") -> Outcome:
        done = CliRunner().invoke(app, args, input=stdin, prog_name="frameworkctl")
        assert not isinstance(done.exception, Exception), done.exception
        return Outcome(done.exit_code, done.stdout, done.stderr)

    yield run
    # A command sends what its libraries log to stderr.
    structlog.reset_defaults()


@pytest.mark.parametrize(
    ("command", "known"),
    [
        ("lint -f sound.yaml -o wide", "'table', 'json', 'yaml'"),
        ("render -f sound.yaml -o table", "'yaml', 'json'"),
        ("run training --image i --dry-run -o name", "'yaml', 'json'"),
        ("why training -o name", "'table', 'json', 'yaml'"),
        ("events training -o wide", "'table', 'json', 'yaml', 'name'"),
    ],
)
def test_a_format_that_a_command_does_not_know_is_wrong_usage(
    ctl: Callable[..., Outcome], command: str, known: str
) -> None:
    done = ctl(*command.split())
    assert (done.code, done.output) == (2, "")
    assert f"'{command.rsplit(maxsplit=1)[-1]}' is not one of {known}." in done.errors
    assert f"<{known.replace(', ', '|')}>".replace("'", "") in ctl(command.split(maxsplit=1)[0], "--help").output


def test_lint_tells_sound_files_from_broken_ones(ctl: Callable[..., Outcome]) -> None:
    sound = ctl("lint", "-f", "sound.yaml")
    assert (sound.code, sound.output, sound.errors) == (0, "", "1 Framework, no problems\n")
    broken = ctl("lint", "-f", "sound.yaml", "--set", "taskRoles[worker].taskNumber=-1", "-o", "json")
    assert broken.code == 2
    assert json.loads(broken.output) == [
        {
            "file": "sound.yaml, document 2",
            "severity": "error",
            "path": "spec.taskRoles[worker].taskNumber",
            "text": "must be at least 0 and at most 10000, not -1",
        }
    ]


def test_a_folder_and_an_url_are_read_as_files_are(
    ctl: Callable[..., Outcome], http_folder: str, tmp_path: Path
) -> None:
    (tmp_path / "empty" / "b.yml").write_text((tmp_path / "placed.yaml").read_text())
    (tmp_path / "empty" / "notes.txt").write_text("no YAML: [")
    assert ctl("lint", "-f", "empty", "-f", f"{http_folder}/sound.yaml").errors == "2 Frameworks, no problems\n"


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Write nothing to stderr, which is compared."""


@pytest.fixture
def http_folder(tmp_path: Path) -> Iterator[str]:
    """The URL of the folder."""
    handler = partial(QuietHandler, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_render_prints_pods_and_refuses_what_is_broken(ctl: Callable[..., Outcome]) -> None:
    pods = list(yaml.safe_load_all(ctl("render", "-f", "sound.yaml", "--all", "-n", "demo").output))
    assert [(pod["kind"], pod["metadata"]["name"], pod["metadata"]["namespace"]) for pod in pods] == [
        ("Pod", "sound-worker-0", "demo"),
        ("Pod", "sound-worker-1", "demo"),
    ]
    broken = ctl("render", "-f", "sound.yaml", "--set", "taskRoles[worker].name=Worker")
    assert (broken.code, broken.output) == (2, "")


def test_run_prints_what_it_would_submit(ctl: Callable[..., Outcome]) -> None:
    done = ctl(
        *("run", "training", "--image", "i", "--role", "ps=1", "--role", "worker=2", "-e", "A=b=c", "--timeout", "2h"),
        *("--retries", "1", "--node-selector", "zone=a", "--volume", "data:/data", "--dry-run", "--shm", "1Gi"),
        *("--label", "team=a", "--annotation", "b=c", "--toleration", "gpu=yes:NoSchedule", "--toleration", "spot"),
        *("--pull-secret", "hub", "--user", "1000", "--restricted", "--set", "spec.description=Trains"),
        *(
            "--suspend",
            "--restart",
            "in-place",
            "--queue",
            "main",
            "--priority-class",
            "high",
            "--",
            "python",
            "train.py",
            "--epochs",
            "3",
            "-v",
        ),
    )
    assert done.code == 0, done
    framework = Framework.from_yaml(done.output)
    assert [(role.name, role.task_number) for role in framework.roles] == [("ps", 1), ("worker", 2)]
    assert (framework.active_deadline_seconds, framework.retry_policy.max_retry_count) == (7200, 1)
    assert (framework.retain_pods, framework.description, framework.suspend) == ("OnFailure", "Trains", True)
    assert framework.labels == {"kueue.x-k8s.io/queue-name": "main", "kueue.x-k8s.io/priority-class": "high"}
    pod = framework.roles[1].pod
    annotations = {"b": "c", "barrier.frameworkcontroller.microsoft.com/restart": "in-place"}
    assert pod["metadata"] == {"labels": {"team": "a"}, "annotations": annotations}
    spec, container = pod["spec"], pod["spec"]["containers"][0]
    assert spec["tolerations"] == [
        {"key": "gpu", "operator": "Equal", "value": "yes", "effect": "NoSchedule"},
        {"key": "spot", "operator": "Exists"},
    ]
    assert (spec["imagePullSecrets"], spec["securityContext"]) == (
        [{"name": "hub"}],
        {"runAsUser": 1000, "runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
    )
    assert spec["volumes"][-1] == {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}
    assert container["volumeMounts"][-1] == {"name": "shm", "mountPath": "/dev/shm"}
    assert container["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    assert container["command"] == ["python", "train.py", "--epochs", "3", "-v"]
    assert container["env"] == [{"name": "A", "value": "b=c"}]


WRONG: dict[str, tuple[list[str], str]] = {
    "no image": (["run", "a"], "--image: is missing"),
    "node selector": (["run", "a", "--image", "i", "--node-selector", "z"], "--node-selector z: must be NAME=VALUE"),
    "env": (["run", "a", "--image", "i", "--env", "A"], "--env A: must be NAME=VALUE"),
    "memory": (["run", "a", "--image", "i", "--memory", "4GB"], "memory: '4GB' is not an amount"),
    "suspended": (["run", "a", "--image", "i", "--suspend", "--logs"], "--suspend: nothing runs that --wait or --logs"),
    "no queue": (["run", "a", "--image", "i", "--priority-class", "b"], "--priority-class: needs --queue"),
    "retries": (["run", "a", "--image", "i", "--retries", "-1"], "--retries -1: must be 0 or more"),
    "name": (["run", "not-a-name", "--image", "i", "--dry-run"], "metadata.name must match"),
    "nearest name": (["run", "Not-a-name", "--image", "i", "--dry-run"], "; notaname would do"),
    "nearest role": (["run", "a", "--image", "i", "--role", "p-s=1", "--dry-run"], "not 'p-s'; ps would do"),
    "toleration": (["run", "a", "--image", "i", "--toleration", "a:Never"], "toleration: 'a:Never' must be KEY or"),
    "shm": (["run", "a", "--image", "i", "--shm", "8GB"], "shm: '8GB' is not an amount"),
    "strangers": (["run", "a", "--image", "i", "--role", "b=2"], "without --preset the Tasks start as strangers"),
    "namespace": (
        ["submit", "-n", "other", "-f", "placed.yaml"],
        "-n other: placed.yaml, document 1 says demo in meta",
    ),
    "nothing to delete": (["delete"], "delete: name Frameworks, or a file of them by -f, or their labels by -l"),
    "no url": (["lint", "-f", "http://a b/"], "http://a b/: URL can't contain control characters"),
    "empty folder": (["lint", "-f", "empty"], "empty: there is no file *.yaml, *.yml or *.json in this folder"),
    "url": (["lint", "-f", "http://127.0.0.1:1/a.yaml"], "http://127.0.0.1:1/a.yaml: [Errno 111] Connection refused"),
    "preset": (["run", "a", "--image", "i", "--preset", "pytorhc", "--dry-run"], "pytorhc"),
    "file": (["lint", "-f", "none.yaml"], "none.yaml: No such file or directory"),
    "other kinds": (["lint", "-f", "-"], "stdin: there is no Framework in it"),
    "no cluster": (["list"], "there is no kubeconfig: name one with --kubeconfig or KUBECONFIG"),
    "no command": (["lst"], "No such command 'lst'. Did you mean 'list'?"),
    "no flag": (["list", "--namspace", "a"], "--namspace"),
    "format": (["list", "-o", "xml"], "'table', 'wide', 'json', 'yaml', 'name'"),
}


@pytest.mark.parametrize(("args", "text"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_named_without_a_traceback(ctl: Callable[..., Outcome], args: list[str], text: str) -> None:
    done = ctl(*args, stdin="kind: Pod\n")
    assert done.code in {1, 2}
    assert text in done.errors


def test_completion_is_offered_for_shells_and_contexts(
    ctl: Callable[..., Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It looks for a shell among the processes above this one, and the tests may have none.
    monkeypatch.setattr(shellingham, "detect_shell", lambda: ("bash", "/bin/bash"))
    done = ctl("--show-completion")
    assert "_FRAMEWORKCTL_COMPLETE" in done.output
    file = tmp_path / "config"
    file.write_text(yaml.safe_dump({"contexts": [{"name": "home"}, {"name": "work"}], "clusters": [], "users": []}))
    monkeypatch.setenv("KUBECONFIG", str(file))
    assert complete_context("w") == ["work"]


def test_kubectl_completes_its_plugin() -> None:
    program = Path(sys.executable).with_name("kubectl_complete-framework")
    asked = ["run", "gang", "--preset", "py"], ["ev"], ["run", "gang", "--script", ""]
    answers = [subprocess.run([program, *words], capture_output=True, text=True, check=True).stdout for words in asked]
    assert answers == ["pytorch\n:4\n", "events\n:4\n", ":0\n"]


def test_the_program_is_called_as_the_user_calls_it() -> None:
    assert program("/usr/bin/kubectl-framework") == "kubectl framework"
    assert program("/usr/bin/frameworkctl") == "frameworkctl"


def test_colours_need_a_terminal_and_no_wish_against_them(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal:
        def isatty(self) -> bool:
            return True

    assert colours_for(Terminal(), {"TERM": "xterm"}).enabled  # type: ignore[arg-type]  # all of a stream that is asked for
    assert not colours_for(Terminal(), {"TERM": "xterm", "NO_COLOR": "1"}).enabled  # type: ignore[arg-type]  # as above
    assert not colours_for(Terminal(), {"TERM": "dumb"}).enabled  # type: ignore[arg-type]  # as above
