"""Every command of `frameworkctl` against a real API server and controller, with Pods that a test plays."""

import json
import signal
import subprocess
from collections.abc import Callable

import pytest
import yaml

from localcluster.client import RawClient
from testkit.frameworks import ControllerProcess, Frameworks, framework, role
from testkit.waiting import eventually, patience
from tests.support.beside.player import Player
from tests.support.frameworkctl import Frameworkctl, interrupt

pytestmark = [pytest.mark.apiserver, pytest.mark.long]
FANCY = {"fancyRetryPolicy": True}


def write(ctl: Frameworkctl, name: str, *roles: dict[str, object], **spec: object) -> str:
    """Write a manifest without a namespace, and return the name of the file."""
    manifest = framework("", name, *roles, **spec)
    del manifest["metadata"]["namespace"]
    (ctl.folder / f"{name}.yaml").write_text(yaml.safe_dump(manifest))
    return f"{name}.yaml"


def until(condition: Callable[[], bool]) -> None:
    def check() -> None:
        assert condition()

    eventually(check, timeout=30)


def test_a_framework_from_its_submission_to_its_deletion(
    ctl: Frameworkctl, controller: ControllerProcess, frameworks: Frameworks, player: Player
) -> None:
    file = write(ctl, "training", role("worker", 1, retry=FANCY), description="Trains", retryPolicy=FANCY)
    player.plan["worker-0"] = player.plan["worker-1"] = ["stay"]
    with player.playing():
        done = ctl.ok("submit", "-f", file, "--set", "taskRoles[worker].taskNumber=2")
        name = "framework.frameworkcontroller.microsoft.com/training"
        assert done.output == f"{name} created in namespace {ctl.namespace}\n"
        ctl.ok("wait training", "--for=ready", "--timeout=300s")
        assert ctl.ok("list").table[0][:4] == ["training", "AttemptRunning", "2/2", "1"]
        assert ctl.ok("list", "-o", "wide").table[0][-2:] == ["worker:2", "Trains"]
        assert json.loads(ctl.ok("list", "-o", "json").output)["items"][0]["metadata"]["name"] == "training"
        assert ctl.ok("list", "-A", "-o", "name").output.count("/training\n") >= 1
        assert yaml.safe_load(ctl.ok("get training", "-o", "yaml").output)["spec"]["description"] == "Trains"
        tree = ctl.ok("describe training").output
        assert "└─ worker-1  AttemptRunning  running  played-node" in tree
        assert "AttemptStarted" in tree
        assert "GangReady" in ctl.ok("events training").output
        assert json.loads(ctl.ok("events training", "-o", "json").output)["items"]

        ctl.ok("scale training", "worker=1")
        until(lambda: len(frameworks.tasks("training")) == 1)
        assert "worker-0 gets another attempt" in ctl.ok("retry training", "worker-0").errors
        eventually(lambda: _is_attempt(frameworks, framework=0, task=1), timeout=30)
        assert "another one follows" in ctl.ok("retry training").errors
        eventually(lambda: _is_attempt(frameworks, framework=1, task=0), timeout=30)

        ctl.ok("suspend training")
        ctl.says("list", "somebody to resume it (suspend: true)")
        assert "-> frameworkctl resume training" in ctl.ok("why training").output
        ctl.ok("resume training")
        ctl.ok("wait training", "--for=ready", "--timeout=300s")

        assert ctl("wait training", "--for=completed", "--timeout=1s").code == 4
        ctl.ok("stop training")
        failed = ctl("wait training")
        assert failed.code == 3
        assert "Framework training failed: StopFrameworkRequested (-210)" in failed.errors
        assert "is Completed, so that nothing can be suspended" in ctl("suspend training").errors
        again = ctl("start training")
        assert (again.code, "was stopped, which is final; retry it" in again.errors) == (2, True)
        ctl.ok("retry training")
        ctl.ok("wait training", "--for=ready", "--timeout=300s")
        assert ctl.ok("delete", "-f", file, "--timeout=300s").output == f"{name} deleted in namespace {ctl.namespace}\n"
    assert ctl.ok("list").output == ""


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def test_a_framework_that_waits_is_started_and_watched_and_its_result_is_the_exit_code(
    ctl: Frameworkctl, controller: ControllerProcess, player: Player
) -> None:
    ctl.ok("submit", "-f", write(ctl, "later", role("worker", 1), executionType="Create"))
    ctl.says("list", "somebody to start it (executionType: Create)")
    watching = ctl.start("watch later")
    line_of(watching)
    with player.playing():
        ctl.ok("start later")
        assert "scaled in namespace" in ctl.ok("scale later", "worker=1").output, "its template has no metadata"
        done = ctl.ok("wait later", "--for=succeeded")
        assert done.errors == "Framework later succeeded\n"
        output, errors = watching.communicate(timeout=600)
        assert watching.returncode == 0, errors
        lines = [line[len("[12:00:00] ") :] for line in output.splitlines()]
        assert "worker-0: Succeeded (0)" in lines
        assert lines[-1] == "later: Completed, Succeeded"
        player.plan["worker-0"] = [7]
        failed = ctl("submit", "-f", write(ctl, "failing", role("worker", 1)), "--wait")
    assert failed.code == 3
    assert "Framework failing failed by worker-0: ContainerUnrecognizedFailed (7)" in failed.errors


def _is_attempt(frameworks: Frameworks, *, framework: int, task: int) -> None:
    status = frameworks.status("training")["attemptStatus"]
    assert status["id"] == framework
    (found,) = status["taskRoleStatuses"][0]["taskStatuses"]
    assert (found["attemptStatus"]["id"], found["state"]) == (task, "AttemptRunning")


@pytest.mark.usefixtures("controller")
def test_a_retry_that_a_quota_refuses_deletes_nothing_and_one_that_is_interrupted_leaves_the_manifest(
    ctl: Frameworkctl, frameworks: Frameworks, raw: RawClient, player: Player, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A finalizer keeps the Framework between its deletion and its creation."""
    monkeypatch.setenv("XDG_STATE_HOME", str(ctl.folder / "state"))
    ctl.ok("submit", "-f", write(ctl, "training", role("worker", 1), description="Trains"))
    with player.playing():
        ctl.ok("wait training", "--for=succeeded", "--timeout=300s")
    completed = raw.merge(f"{frameworks.path}/training", {"metadata": {"finalizers": ["example.com/held"]}})

    hard = {"count/frameworks.frameworkcontroller.microsoft.com": "1"}
    quotas = f"/api/v1/namespaces/{ctl.namespace}/resourcequotas"
    raw.create(quotas, {"metadata": {"name": "one"}, "spec": {"hard": hard}})
    write(ctl, "another", role("worker", 1))
    until(lambda: "quota" in ctl("submit", "-f", "another.yaml", "--dry-run").errors)
    done = ctl("retry training")
    assert (done.code, "quota" in done.errors, done.errors.endswith("; nothing was deleted\n")) == (1, True, True)
    assert frameworks.get("training")["metadata"]["uid"] == completed["metadata"]["uid"]
    raw.delete(f"{quotas}/one")
    until(lambda: ctl("submit", "-f", "another.yaml", "--dry-run").code == 0)

    process = ctl.start("retry training")
    assert process.stderr is not None
    told, _, file = process.stderr.readline().strip().rpartition(" ")
    assert told.endswith("if this is interrupted, create Framework training again with: frameworkctl submit -f")
    until(lambda: "deletionTimestamp" in frameworks.get("training")["metadata"])
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=patience(20))
    assert "Traceback" not in errors
    raw.merge(f"{frameworks.path}/training", {"metadata": {"finalizers": None}})
    eventually(lambda: _is_told(ctl, file), timeout=30)
    ctl.ok("submit", "-f", file)
    assert frameworks.get("training")["spec"] == completed["spec"]


def _is_told(ctl: Frameworkctl, file: str) -> None:
    again = ctl("retry training")
    assert (again.code, f"if it is gone, create it again: frameworkctl submit -f {file}" in again.errors) == (1, True)


def test_what_is_watched_goes_on_until_ctrl_c_or_its_deletion_which_has_its_own_exit_code(
    ctl: Frameworkctl, frameworks: Frameworks, raw: RawClient
) -> None:
    frameworks.create("patient", role("worker", 1), executionType="Create")
    listing = ctl.start("list", "--watch")
    lines = [line_of(listing), line_of(listing)]
    frameworks.create("short", role("worker", 1), executionType="Create")
    lines.append(line_of(listing))
    assert [line.split()[0] for line in lines] == ["NAME", "patient", "short"]
    assert interrupt(listing).code == 130

    patient, short = ctl.start("watch patient"), ctl.start("watch short")
    assert "patient: not seen by the controller" in line_of(patient)
    done = interrupt(patient)
    assert done.code == 130
    assert f"Framework patient goes on. See it again: frameworkctl logs -f patient -n {ctl.namespace}" in done.errors
    assert frameworks.get("patient")["spec"]["executionType"] == "Create"

    line_of(short)
    raw.delete(f"{frameworks.path}/short")
    _, errors = short.communicate(timeout=600)
    assert (short.returncode, "was deleted" in errors) == (5, True)


def test_what_is_wrong_is_said_in_one_line_with_the_next_step(ctl: Frameworkctl, frameworks: Frameworks) -> None:
    frameworks.create("training", role("worker", 1), executionType="Create")
    (ctl.folder / "pod.yaml").write_text("kind: Pod\n")
    (ctl.folder / "broken.yaml").write_text("a: [1\n")
    too_many = write(ctl, "huge", role("worker", 20_000))
    unknown = write(ctl, "typo", role("worker", 1), taskRole=[])
    for args, code, text in (
        (("get nobody",), 1, "there is none; check the name and the namespace"),
        (("wait training", "--for=done"), 2, "for done: must be one of completed, succeeded, running, ready, deleted"),
        (("logs training", "--role=ps"), 2, "--role ps: Framework training has no such role"),
        (("logs training", "--task=ps-0"), 2, "task ps-0: there is no role ps"),
        (("submit", "-f", "pod.yaml"), 2, "pod.yaml, document 1: its kind is Pod"),
        (("submit", "-f", "broken.yaml"), 2, "broken.yaml, line 2"),
        (("submit", "-f", too_many), 1, "spec.taskRoles[0].taskNumber"),
        (("submit", "-f", unknown), 1, 'unknown field "spec.taskRole"'),
        (("submit", "-f", write(ctl, "training", role("worker", 1))), 1, "it exists already; delete it first"),
        (("list", "--as-group=team"), 2, "--as-group: needs --as"),
        (("list", "--as=nobody"), 1, 'User "nobody" cannot list resource "frameworks"'),
        (("logs training", "--as=nobody"), 1, "ask an administrator for the permission"),
    ):
        done = ctl(*args)
        assert (done.code, text in done.errors) == (code, True), (args, done)
        assert done.errors.count("\n") == 1, done.errors


def test_a_dry_run_creates_nothing(ctl: Frameworkctl, frameworks: Frameworks) -> None:
    done = ctl.ok("submit", "-f", "-", "--dry-run", stdin=yaml.safe_dump(framework("", "dry", role("worker", 1))))
    assert done.output.endswith(f"dry created (dry run) in namespace {ctl.namespace}\n")
    assert ctl.ok("list").errors == f"No Frameworks in namespace {ctl.namespace}.\n"


def test_what_the_user_may_not_read_is_left_out_of_a_description(
    ctl: Frameworkctl, frameworks: Frameworks, raw: RawClient
) -> None:
    frameworks.create("training", role("worker", 1), executionType="Create")
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{ctl.namespace}"
    rule = {"apiGroups": ["frameworkcontroller.microsoft.com"], "resources": ["frameworks"], "verbs": ["get", "list"]}
    raw.create(f"{rbac}/roles", {"metadata": {"name": "reader"}, "rules": [rule]})
    named = {"name": "reader", "apiGroup": "rbac.authorization.k8s.io"}
    bound = {"subjects": [{"kind": "User", **named}], "roleRef": {"kind": "Role", **named}}
    raw.create(f"{rbac}/rolebindings", {"metadata": {"name": "reader"}, **bound})
    done = eventually(lambda: ctl.ok("describe training", "--as=reader"), timeout=20)
    assert "└─ worker: 1 Task" in done.output
    assert "cannot list Pods" in done.errors
    assert "cannot list Events" in done.errors
