"""The commands that need no cluster, and what commands say about wrong flags."""

import json
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import shellingham
import structlog
import yaml
from typer.testing import CliRunner

from frameworkclient.cli.app import app
from frameworkclient.cli.run import complete_context
from frameworkclient.cli.terminal import colours_for, program
from tests.client.broken import SOUND
from tests.support.frameworkctl import Outcome
from tests.support.http import serving
from tests.support.kubeconfig import kubeconfig

Command = Callable[[str], Outcome]


@pytest.fixture
def ctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Command]:
    """Runs command lines in this process, without a kubeconfig, in a folder of some files; stdin has a Pod."""
    (tmp_path / "sound.yaml").write_text(yaml.safe_dump_all([{"kind": "ConfigMap"}, SOUND]))
    (tmp_path / "placed.yaml").write_text(yaml.safe_dump(SOUND | {"metadata": {"name": "a", "namespace": "demo"}}))
    (tmp_path / "text.yaml").write_text(yaml.safe_dump(SOUND | {"metadata": "text"}))
    (tmp_path / "items.yaml").write_text("{kind: List, items: 5}")
    (tmp_path / "hostile.yaml").write_text(json.dumps(SOUND | {"spec": {"\x1b[2J": 1, "taskRoles": []}}))
    (tmp_path / "empty").mkdir()
    kubeconfig(tmp_path / "config")
    monkeypatch.chdir(tmp_path)
    for name in ("KUBECONFIG", "HOME", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.argv", ["frameworkctl"])

    def run(line: str) -> Outcome:
        done = CliRunner().invoke(app, shlex.split(line), input="kind: Pod\n", prog_name="frameworkctl")
        assert not isinstance(done.exception, Exception), done.exception
        return Outcome(done.exit_code, done.stdout, done.stderr)

    yield run
    # A command sends what its libraries log to stderr.
    structlog.reset_defaults()


FORMATS = {
    "lint -f sound.yaml -o wide": "'table', 'json', 'yaml'",
    "render -f sound.yaml -o table": "'yaml', 'json'",
    "run training --image i --dry-run -o name": "'yaml', 'json'",
    "why training -o name": "'table', 'json', 'yaml'",
    "events training -o wide": "'table', 'json', 'yaml', 'name'",
    "list -o xml": "'table', 'wide', 'json', 'yaml', 'name'",
}


@pytest.mark.parametrize(("line", "known"), FORMATS.items(), ids=FORMATS)
def test_a_format_that_a_command_does_not_know_is_wrong_usage(ctl: Command, line: str, known: str) -> None:
    done = ctl(line)
    assert (done.code, done.output) == (2, "")
    assert f"'{line.rsplit(maxsplit=1)[-1]}' is not one of {known}." in done.errors
    assert f"<{known.replace(', ', '|')}>".replace("'", "") in ctl(f"{line.split(maxsplit=1)[0]} --help").output


def test_lint_tells_sound_files_folders_and_urls_from_broken_ones(ctl: Command, tmp_path: Path) -> None:
    assert ctl("lint -f sound.yaml") == Outcome(0, "", "1 Framework, no problems\n")
    (tmp_path / "empty" / "b.yml").write_text((tmp_path / "placed.yaml").read_text())
    (tmp_path / "empty" / "notes.txt").write_text("no YAML: [")
    with serving(lambda path: (200, (tmp_path / path.removeprefix("/")).read_bytes())) as url:
        assert ctl(f"lint -f empty -f {url}/sound.yaml").errors == "2 Frameworks, no problems\n"
    broken = ctl("lint -f sound.yaml --set taskRoles[worker].taskNumber=-1 -o json")
    path, text = "spec.taskRoles[worker].taskNumber", "must be at least 0 and at most 10000, not -1"
    problem = {"file": "sound.yaml, document 2", "severity": "error", "path": path, "text": text}
    assert (broken.code, json.loads(broken.output)) == (2, [problem])


def test_keys_of_a_foreign_file_reach_no_terminal_with_control_sequences(ctl: Command) -> None:
    for line in ("lint -f hostile.yaml", "render -f hostile.yaml"):
        done = ctl(line)
        assert "there is no such field" in done.output + done.errors
        assert "\x1b" not in done.output + done.errors


def test_render_prints_pods_and_refuses_what_is_broken(ctl: Command) -> None:
    pods = list(yaml.safe_load_all(ctl("render -f sound.yaml --all -n demo").output))
    named = [(pod["kind"], pod["metadata"]["name"], pod["metadata"]["namespace"]) for pod in pods]
    assert named == [("Pod", "sound-worker-0", "demo"), ("Pod", "sound-worker-1", "demo")]
    broken = ctl("render -f sound.yaml --set taskRoles[worker].name=Worker")
    assert (broken.code, broken.output) == (2, "")


RUN = """
run training --image my-image --role ps=1 --role worker=2 --retries 1 --timeout 2h --suspend --dry-run
--preset pytorch --restart in-place --cpu 2 --memory 4Gi --gpus 1 --shm 1Gi -e EPOCHS=a=b
--volume data:/data:ro --volume out:/out --volume data:/again
--node-selector zone=a --toleration gpu=yes:NoSchedule --toleration spot
--label team=a --annotation note=b=c --service-account trainer --pull-secret hub --user 1000 --restricted
--queue main --priority-class high --set spec.description=Trains -- python train.py --epochs 3 -v
"""
SUBMITTED = """
apiVersion: frameworkcontroller.microsoft.com/v1
kind: Framework
metadata: {name: training, labels: {kueue.x-k8s.io/queue-name: main, kueue.x-k8s.io/priority-class: high}}
spec:
  description: Trains
  retryPolicy: {fancyRetryPolicy: true, maxRetryCount: 1}
  activeDeadlineSeconds: 7200
  retainPods: OnFailure
  suspend: true
  taskRoles:
  - name: ps
    taskNumber: 1
    task:
      pod: &pod
        metadata:
          labels: {team: a, frameworkcontroller.microsoft.com/barrier: enabled}
          annotations:
            note: b=c
            barrier.frameworkcontroller.microsoft.com/restart: in-place
            barrier.frameworkcontroller.microsoft.com/preset: pytorch
        spec:
          restartPolicy: Never
          containers:
          - name: main
            image: my-image
            command: [python, train.py, --epochs, "3", -v]
            env: [{name: EPOCHS, value: a=b}]
            resources:
              requests: &amounts {cpu: "2", memory: 4Gi, nvidia.com/gpu: 1}
              limits: *amounts
            volumeMounts:
            - {name: volume0, mountPath: /data, readOnly: true}
            - {name: volume1, mountPath: /out}
            - {name: volume0, mountPath: /again}
            - {name: shm, mountPath: /dev/shm}
            securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
          volumes:
          - {name: volume0, persistentVolumeClaim: {claimName: data}}
          - {name: volume1, persistentVolumeClaim: {claimName: out}}
          - {name: shm, emptyDir: {medium: Memory, sizeLimit: 1Gi}}
          nodeSelector: {zone: a}
          tolerations: [{key: gpu, operator: Equal, value: "yes", effect: NoSchedule}, {key: spot, operator: Exists}]
          serviceAccountName: trainer
          imagePullSecrets: [{name: hub}]
          securityContext: {runAsUser: 1000, runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
  - {name: worker, taskNumber: 2, task: {pod: *pod}}
"""


def test_run_prints_what_it_would_submit(ctl: Command) -> None:
    done = ctl(RUN)
    assert (done.code, yaml.safe_load(done.output)) == (0, yaml.safe_load(SUBMITTED)), done


WRONG = {
    "run a": "--image: is missing",
    "run a --image i --node-selector z": "--node-selector z: must be NAME=VALUE",
    "run a --image i --env A": "--env A: must be NAME=VALUE",
    "run a --image i --memory 4GB": "memory: '4GB' is not an amount",
    "run a --image i --suspend --logs": "--suspend: nothing runs that --wait or --logs",
    "run a --image i --priority-class b": "--priority-class: needs --queue",
    "run a --image i --retries -1": "--retries -1: must be 0 or more",
    "run not-a-name --image i --dry-run": "metadata.name must match",
    "run Not-a-name --image i --dry-run": "; notaname would do",
    "run a --image i --role p-s=1 --dry-run": "not 'p-s'; ps would do",
    "run a --image i --role b=2": "without --preset the Tasks start as strangers",
    "run a --image i --preset pytorhc --dry-run": "pytorhc",
    "submit -n other -f placed.yaml": "-n other: placed.yaml, document 1 says demo in meta",
    "delete": "delete: name Frameworks, or a file of them by -f, or their labels by -l",
    "lint -f 'http://a b/'": "http://a b/: URL can't contain control characters",
    "lint -f http://127.0.0.1:1/a.yaml": "http://127.0.0.1:1/a.yaml: [Errno 111] Connection refused",
    "lint -f empty": "empty: there is no file *.yaml, *.yml or *.json in this folder",
    "lint -f none.yaml": "none.yaml: No such file or directory",
    "lint -f -": "stdin: there is no Framework in it",
    "render -f sound.yaml --injector-arg=--env-files=none": "--injector-arg: needs --templates",
    "logs a --kubeconfig config --grep (": "--grep (: not a regular expression in RE2 syntax: missing ): (",
    "submit -f text.yaml": "text.yaml, document 1: metadata: must be an object",
    "delete -f text.yaml": "text.yaml, document 1: metadata: must be an object",
    "submit -f items.yaml": "items.yaml, document 1: items: must be a list",
    "list --kubeconfig config --since 9999999d": "--since 9999999d: must be at most 36500d",
    "list": "there is no kubeconfig: name one with --kubeconfig or KUBECONFIG",
    "lst": "No such command 'lst'. Did you mean 'list'?",
    "list --namspace a": "--namspace",
}


@pytest.mark.parametrize(("line", "text"), WRONG.items(), ids=WRONG)
def test_what_is_wrong_is_named_without_a_traceback(ctl: Command, line: str, text: str) -> None:
    done = ctl(line)
    assert done.code in {1, 2}
    assert text in done.errors


def test_shells_and_contexts_are_completed(ctl: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # It looks for a shell among the processes above this one, and the tests may have none.
    monkeypatch.setattr(shellingham, "detect_shell", lambda: ("bash", "/bin/bash"))
    assert "_FRAMEWORKCTL_COMPLETE" in ctl("--show-completion").output
    monkeypatch.setenv("KUBECONFIG", kubeconfig(tmp_path / "config"))
    assert complete_context("h") == ["home"]


def test_kubectl_completes_its_plugin() -> None:
    program = Path(sys.executable).with_name("kubectl_complete-framework")
    asked = ["run", "gang", "--preset", "py"], ["ev"], ["run", "gang", "--script", ""]
    answers = [subprocess.run([program, *words], capture_output=True, text=True, check=True).stdout for words in asked]
    assert answers == ["pytorch\n:4\n", "events\n:4\n", ":0\n"]


def test_the_program_is_called_as_the_user_calls_it_and_colours_need_a_terminal_and_no_wish_against_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = {"/usr/bin/kubectl-framework": "kubectl framework", "/usr/bin/frameworkctl": "frameworkctl"}
    assert {path: program(path) for path in names} == names
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert colours_for(sys.stdout, {"TERM": "xterm"}).enabled
    assert not colours_for(sys.stdout, {"TERM": "xterm", "NO_COLOR": "1"}).enabled
    assert not colours_for(sys.stdout, {"TERM": "dumb"}).enabled
