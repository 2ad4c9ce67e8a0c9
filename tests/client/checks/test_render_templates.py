"""`render --templates` with what creates Pods: Frameworks, Jobs, CronJobs, Lists, several documents, documentation."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from frameworkclient.cli.app import app
from frameworkcontroller.core.pods.template import PodTemplate, RoleAttempt
from frameworkinjector import __version__
from frameworkinjector.review.config import Config, EnvFiles
from frameworkinjector.review.plan import Plan, decide
from frameworkinjector.review.pod import decode_pod
from tests.support.rows import each

ROOT = Path(__file__).parents[3]
PREFIX = "barrier.frameworkcontroller.microsoft.com/"
STATUS = PREFIX + "status"
JSON = dict[str, Any]
# What `render` takes where no flag of the injector is given.
CONFIG = Config(version=__version__, in_place_restart=True)


def template(**annotations: str) -> JSON:
    return {
        "metadata": {
            "labels": {"frameworkcontroller.microsoft.com/barrier": "enabled"},
            "annotations": {PREFIX + name.replace("_", "-"): value for name, value in annotations.items()},
        },
        "spec": {"restartPolicy": "Never", "containers": [{"name": "app", "command": ["python", "train.py"]}]},
    }


def framework(*roles: JSON, name: str = "mnist") -> JSON:
    return {
        "apiVersion": "frameworkcontroller.microsoft.com/v1",
        "kind": "Framework",
        "metadata": {"name": name, "namespace": "lab"},
        "spec": {"taskRoles": list(roles)},
    }


def role(name: str, pod: JSON) -> JSON:
    return {"name": name, "taskNumber": 2, "task": {"pod": pod}}


def job(pod: JSON, kind: str = "Job", **spec: Any) -> JSON:
    inner = {"completionMode": "Indexed", **spec, "template": pod}
    outer = {"schedule": "* * * * *", "jobTemplate": {"spec": inner}} if kind == "CronJob" else inner
    return {"apiVersion": "batch/v1", "kind": kind, "metadata": {"name": "train", "namespace": "lab"}, "spec": outer}


def lone_pod() -> JSON:
    pod = {"kind": "Pod", **template(selector="a", roles="worker=2")}
    pod["metadata"]["name"] = "train-0"
    return pod


def run(*arguments: str, stdin: str = "") -> tuple[int, str, str]:
    """Return the exit code, the output, and what is said beside it."""
    done = CliRunner().invoke(app, ["render", "--templates", *arguments], input=stdin)
    return done.exit_code, done.stdout, done.stderr


def render(tmp_path: Path, *documents: Any, text: str = "", flags: tuple[str, ...] = ()) -> tuple[int, str, str]:
    """Render a file; what is said of it has no name of the file."""
    file = tmp_path / "file"
    file.write_text(text or yaml.safe_dump_all(documents))
    code, out, err = run("-f", str(file), *flags)
    return code, out, err.replace(f"{file}, ", "")


def barrier_of(pod: JSON) -> JSON:
    found: JSON = pod["spec"]["initContainers"][-1]
    assert found["name"] == "frameworkbarrier"
    return found


def environment(container: JSON) -> JSON:
    """Return what the kubelet would set: the last entry of a name counts."""
    return {one["name"]: one.get("value") or one.get("valueFrom") for one in container["env"]}


def test_each_role_of_a_framework_is_injected_also_one_that_is_an_alias_and_the_rest_stays(tmp_path: Path) -> None:
    shared = template()
    original = framework(role("ps", shared), role("worker", template(preset="tensorflow")), role("other", shared))
    original["spec"]["executionType"] = "Start"
    assert "*id" in yaml.safe_dump(original)
    code, out, err = render(tmp_path, original)
    where = "document 1, Framework mnist, spec.taskRoles[{}].task.pod: The barrier was added.\n"
    assert (code, err) == (0, "".join(where.format(number) for number in range(3)))
    result = yaml.safe_load(out)
    assert "&id" not in out
    for number, pod in enumerate(one["task"].pop("pod") for one in result["spec"]["taskRoles"]):
        assert barrier_of(pod)
        assert len(pod["spec"]["initContainers"]) == 1
        assert json.loads(pod["metadata"]["annotations"].pop(STATUS))["containers"] == ["app"]
        given = original["spec"]["taskRoles"][number]["task"].pop("pod")
        assert pod["metadata"] == given["metadata"]
    assert result == original


def test_the_controller_makes_of_the_result_the_pod_that_the_webhook_makes_of_the_original(tmp_path: Path) -> None:
    given = template(preset="tensorflow", wait_for="arrived", timeout="90", selector="app={{FC_FRAMEWORK_NAME}}")
    given["metadata"]["annotations"][PREFIX + "roles"] = "{{FC_TASKROLE_NAME}}=2"
    given["metadata"]["labels"]["size"] = "{{FC_TASK_INDEX}}"
    _, out, _ = render(tmp_path, framework(role("worker", given)))
    (result,) = [one["task"]["pod"] for one in yaml.safe_load(out)["spec"]["taskRoles"]]
    attempt = RoleAttempt("lab", "mnist", "fw-uid", 3, "cm-uid", "worker", "role-uid")

    def created(pod: JSON) -> JSON:
        made: JSON = json.loads(PodTemplate(json.dumps(pod).encode(), attempt).render(1, "task-uid", 4))
        return made

    before, after = created(given), created(result)
    plan = decide(decode_pod(json.dumps(before).encode()), CONFIG, EnvFiles.QUOTED)
    assert isinstance(plan, Plan)
    ours = barrier_of(after)
    names = [one["name"] for one in ours["env"]]
    assert len(names) == len(set(names))
    assert environment(ours) == environment(plan.barrier)
    assert {**ours, "env": None} == {**plan.barrier, "env": None}
    assert after["metadata"]["labels"] == before["metadata"]["labels"]


@pytest.mark.parametrize("kind", ["Job", "CronJob"])
def test_a_job_and_a_cronjob_wait_for_the_pods_of_the_same_job(kind: str, tmp_path: Path) -> None:
    code, out, err = render(tmp_path, job(template(roles="worker=4", preset="pytorch"), kind))
    where = "spec.template" if kind == "Job" else "spec.jobTemplate.spec.template"
    assert (code, err) == (0, f"document 1, {kind} train, {where}: The barrier was added.\n")
    spec = yaml.safe_load(out)["spec"]
    spec = spec if kind == "Job" else spec["jobTemplate"]["spec"]
    variables = environment(barrier_of(spec["template"]))
    uid = "metadata.labels['batch.kubernetes.io/controller-uid']"
    assert variables["FB_JOB_UID"] == {"fieldRef": {"fieldPath": uid}}
    assert variables["FB_SELECTOR"] == "batch.kubernetes.io/controller-uid=$(FB_JOB_UID)"
    assert variables["FB_ROLES"] == "worker=4"
    # What the Job's controller adds is not written into the template.
    assert set(spec["template"]["metadata"]) == {"labels", "annotations"}


JOBSET = "jobset.sigs.k8s.io/"
OF_JOBSET = template(
    selector=f"{JOBSET}jobset-name=train", roles="ps=1,worker=2", role_label=f"{JOBSET}replicatedjob-name"
)
JOBS = {"replicatedJobs": [{"name": name, "template": {"spec": {"template": OF_JOBSET}}} for name in ("ps", "worker")]}
OTHERS = {
    "StatefulSet": ({"template": template(selector="app=train", roles="worker=2")}, "spec.template"),
    "JobSet": (JOBS, "spec.replicatedJobs[1].template.spec.template"),
    "TrainingRuntime": ({"template": {"spec": JOBS}}, "spec.template.spec.replicatedJobs[1].template.spec.template"),
    "LeaderWorkerSet": (
        {"leaderWorkerTemplate": {"workerTemplate": template(roles="worker=4")}},
        "spec.leaderWorkerTemplate.workerTemplate",
    ),
    # Nothing is known of the index that its controller gives.
    "SomethingNew": ({"template": template(selector="a", roles="worker=4")}, "spec.template"),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_other_workloads(kind: str, tmp_path: Path) -> None:
    spec, where = OTHERS[kind]
    code, out, err = render(tmp_path, {"kind": kind, "metadata": {"name": "train"}, "spec": spec})
    assert (code, err.splitlines()[-1]) == (0, f"document 1, {kind} train, {where}: The barrier was added.")
    assert out.count("initContainers") == out.count('"reason":"injected"') == len(err.splitlines())


WITHOUT_INDEX = {"metadata": {"name": "train"}, "spec": {"template": template(selector="a", roles="worker=2")}}


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        (job(template(roles="worker=4"), completionMode="NonIndexed"), "set completionMode: Indexed in the Job"),
        (job(template()), f"Annotation {PREFIX}roles is missing"),
        (WITHOUT_INDEX | {"kind": "Deployment"}, "instead of a Deployment"),
        (WITHOUT_INDEX | {"kind": "DaemonSet"}, "instead of a DaemonSet"),
        (framework(role("a", template()), role("b", template(preset="x")), name="train"), "is 'x', but must be"),
    ],
)
def test_a_refusal_names_the_object_and_the_template(document: JSON, sentence: str, tmp_path: Path) -> None:
    code, out, err = render(tmp_path, document)
    assert (code, out) == (2, "")
    where = "spec.taskRoles[1].task.pod" if document["kind"] == "Framework" else "spec.template"
    assert err.splitlines()[-1].startswith(f"document 1, {document['kind']} train, {where}: refused: ")
    assert sentence in err
    # Every refusal of a file is reported.
    code, out, err = render(tmp_path, document, job(template()))
    assert (code, out, err.count(": refused: ")) == (2, "", 2)


def test_a_list_and_several_documents_become_documents_and_what_has_no_pod_stays(tmp_path: Path) -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "train"}}
    items = {"apiVersion": "v1", "kind": "List", "items": [account, framework(role("worker", template()))]}
    pods = {"kind": "PodList", "items": [lone_pod()]}
    # A kind whose name ends like that of a list.
    addresses = {"apiVersion": "atlas.mongodb.com/v1", "kind": "AtlasIPAccessList", "metadata": {"name": "office"}}
    code, out, err = render(tmp_path, items, account, job(template(roles="worker=4")), addresses, pods)
    assert err.splitlines() == [
        "document 1, List items[0], ServiceAccount train holds no Pod and stays as it is.",
        "document 1, List items[1], Framework mnist, spec.taskRoles[0].task.pod: The barrier was added.",
        "document 2, ServiceAccount train holds no Pod and stays as it is.",
        "document 3, Job train, spec.template: The barrier was added.",
        "document 4, AtlasIPAccessList office holds no Pod and stays as it is.",
        "document 5, PodList items[0], Pod train-0: The barrier was added.",
    ]
    *found, pod = list(yaml.safe_load_all(out))
    assert code == 0
    assert [one["kind"] for one in found] == ["ServiceAccount", "Framework", "ServiceAccount", "Job", addresses["kind"]]
    assert (found[0], found[2], found[4]) == (account, account, addresses)
    assert barrier_of(pod)
    _, out, _ = render(tmp_path, text=json.dumps(items), flags=("-o", "json"))
    assert [one["kind"] for one in json.loads(out)["items"]] == ["ServiceAccount", "Framework"]


def test_json_is_read_as_json(tmp_path: Path) -> None:
    pod = {"kind": "Pod", "metadata": {"annotations": {"a": "\U0001f600"}}, "spec": {"containers": [], "x": 1e30}}
    code, out, _ = render(tmp_path, text=json.dumps(pod, indent="\t"), flags=("-o", "json"))
    assert (code, json.loads(out)["items"]) == (0, [pod])
    code, _, err = render(tmp_path, text='{"kind": "Pod",\n"kind": "Pod"}')
    assert (code, err) == (2, "frameworkctl: line 2: the key 'kind' is given twice\n")
    code, _, err = render(tmp_path, text='{"kind": "Pod", "metadata": {"name": "\\ud83d"}}')
    assert (code, err) == (2, "frameworkctl: line 1: found invalid Unicode character escape code\n")


GANG = framework(role("worker", template()))
NAMED = "kind: Framework\nmetadata: {name: mnist}\n"
TASK_POD = NAMED + "spec: {taskRoles: [{name: worker, task: {pod: {%s}}}]}"
SOUND = "spec: {containers: []}"
NOT_RENDERED = {
    NAMED: "Framework mnist: spec is missing",
    NAMED + "spec: {}": "Framework mnist: spec.taskRoles is missing",
    NAMED + "spec: {taskRoles: [x]}": "Framework mnist: spec.taskRoles[0] must be an object",
    NAMED + "spec: {taskRoles: [{name: worker}]}": "Framework mnist: spec.taskRoles[0].task is missing",
    TASK_POD.replace("name: worker, ", "") % SOUND: "Framework mnist: spec.taskRoles[0].name is missing",
    TASK_POD.replace(NAMED, "kind: Framework\n") % SOUND: "Framework: metadata.name is missing",
    TASK_POD % "spec: {}": "Framework mnist: spec.taskRoles[0].task.pod.spec.containers is missing",
    TASK_POD % f"metadata: {{labels: {{a: [1]}}}}, {SOUND}": (
        "Framework mnist: spec.taskRoles[0].task.pod: the Pod is malformed: Expected `str`, got `array`"
    ),
    TASK_POD % f"metadata: 5, {SOUND}": "task.pod.metadata must be an object",
    "kind: Job\nspec: {template: []}": "Job: spec.template must be an object",
    "kind: CronJob\nspec: {jobTemplate: {}}": "CronJob: spec.jobTemplate.spec is missing",
    "kind: Pod\nspec: {containers: {}}": "spec.containers must be a list",
    "spec: {containers: {a: b}}": "the Pod is malformed",
    "spec: {containers: [{name: 5}]}": "the Pod is malformed",
    f"{yaml.safe_dump(GANG)}---\nkind: List": "document 2, List: items is missing",
    "kind: Role\n---\n{kind: List, items: [5]}": "document 2, List items[0]: the document is not a Kubernetes object",
    f"{yaml.safe_dump(GANG)}---\nx": "document 2: the document is not a Kubernetes object",
    "kind: Service\n---\nkind: Role": "there is no Pod to render",
    "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job": "there is no Pod to render",
    "a: [": "line 2: ",
    "a: &a [*a]": "document 1, object: the object cannot be written as JSON: ",
    "&a {kind: List, items: [*a]}": "document 1: its Lists are nested too deeply",
}


@each("text, message", NOT_RENDERED.items())
def test_what_is_wrong_with_a_file_is_one_line_with_the_document_and_the_field(
    text: str, message: str, tmp_path: Path
) -> None:
    code, out, err = render(tmp_path, text=text)
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert message in err


def test_the_result_of_a_pod_without_a_framework_may_be_applied_to_any_namespace() -> None:
    code, out, err = run("-f", "-", "-n", "lab", stdin=yaml.safe_dump(lone_pod()))
    assert (code, err) == (0, "stdin, document 1, Pod train-0: The barrier was added.\n")
    found = environment(barrier_of(yaml.safe_load(out)))["FC_FRAMEWORK_NAMESPACE"]
    assert found == {"fieldRef": {"fieldPath": "metadata.namespace"}}


def test_the_namespace_of_the_flag_is_that_of_frameworks_without_one() -> None:
    gang = framework(role("worker", template(selector="of={{FC_FRAMEWORK_NAMESPACE}}", roles="worker=2")))
    for namespace in ("lab", "home"):
        _, out, _ = run("-f", "-", "-n", "home", stdin=yaml.safe_dump(gang))
        (pod,) = [one["task"]["pod"] for one in yaml.safe_load(out)["spec"]["taskRoles"]]
        assert environment(barrier_of(pod))["FB_SELECTOR"] == f"of={namespace}"
        gang["metadata"].pop("namespace", None)


PRESET = '[variables]\nMY_HUB = "{{ head.name }}"\n'


def test_flags_of_the_injector_say_what_the_operator_decides(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(PRESET)
    flags = tuple(
        f"--injector-arg={one}"
        for one in (f"--preset-dir={tmp_path}", "--barrier-image=r/b:1", "--env-files=none", "--no-in-place-restart")
    )
    gang = framework(role("worker", template(preset="mine")))
    code, out, err = render(tmp_path, gang, flags=flags)
    assert code == 0, err
    (pod,) = [one["task"]["pod"] for one in yaml.safe_load(out)["spec"]["taskRoles"]]
    assert barrier_of(pod)["image"] == "r/b:1"
    assert "mine" in environment(barrier_of(pod))["FB_PRESET_DEFINITIONS"]
    # Without files of variables the command is wrapped.
    assert pod["spec"]["containers"][0]["command"][0] == "/mnt/frameworkbarrier/run"
    code, _, err = render(tmp_path, framework(role("a", template(restart="in-place"))), flags=flags)
    assert (code, "this cluster does not support the action RestartAllContainers" in err) == (2, True)
    code, _, err = render(tmp_path, gang)
    assert (code, "is 'mine', but must be" in err) == (2, True)


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["--injector-arg=--barrier-image=a b"], "--injector-arg: argument --barrier-image: 'a b'"),
        (["--injector-arg=--port=1"], "--injector-arg: unrecognized arguments: --port=1"),
        (["--injector-arg=--preset-dir=/nonexistent"], "--injector-arg: --preset-dir /nonexistent: "),
        (["--injector-arg=--env-files=maybe"], "'maybe' is not one of none, plain, quoted"),
        (["--all"], "--templates: takes neither --all nor --set"),
        (["--set", "a=b"], "--templates: takes neither --all nor --set"),
        (["-f", "/none.yaml"], "/none.yaml: No such file or directory"),
    ],
)
def test_wrong_flags_and_a_file_that_is_missing_are_named(flags: list[str], expected: str) -> None:
    code, out, err = run("-f", "-", *flags, stdin=yaml.safe_dump(GANG))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert expected in err
