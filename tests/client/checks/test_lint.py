"""What `lint` finds in a Framework, without a cluster."""

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from frameworkclient import Framework
from frameworkclient.checks import schema
from frameworkclient.checks.lint import lint
from frameworkclient.checks.pods import pods_of
from frameworkclient.checks.problem import Severity
from frameworkclient.errors import ManifestError
from frameworkclient.model.yaml_text import documents
from frameworkcontroller.api import definition, names
from tests.client.broken import POLICY, REFUSED, ROLE, SOUND, TAKEN, changed, wrong

EXAMPLES = Path(__file__).parents[3] / "examples"
POD = "spec/taskRoles/0/task/pod"
PREFIX = "barrier.frameworkcontroller.microsoft.com"


def found(manifest: Any) -> list[str]:
    return [str(problem) for problem in lint(manifest)]


def depends_on(role: str) -> list[dict[str, str]]:
    return [{"name": role, "status": "Ready"}]


@pytest.mark.parametrize(("manifest", "text"), REFUSED.values(), ids=REFUSED)
def test_what_the_api_server_refuses_is_an_error(manifest: dict[str, Any], text: str) -> None:
    problems = lint(manifest)
    assert problems[0].severity is Severity.ERROR
    assert text in str(problems[0])


@pytest.mark.parametrize("manifest", TAKEN.values(), ids=TAKEN)
def test_what_the_api_server_takes_has_no_error_of_the_schema(manifest: dict[str, Any]) -> None:
    assert list(schema.problems(manifest, definition.schema())) == []


def test_a_sound_framework_has_no_problems_and_another_kind_and_no_object_are_errors() -> None:
    assert lint(SOUND) == []
    assert found(SOUND | {"kind": "Pod"}) == ["error: kind: must be Framework, not Pod"]
    assert found("text") == ["error: the document: must be an object"]


def _schemas(value: Any) -> Iterator[dict[str, Any]]:
    yield value
    for one in value.get("properties", {}).values():
        yield from _schemas(one)
    if "items" in value:
        yield from _schemas(value["items"])


# Keywords that make a value invalid or change what is valid, and those that do not.
CHECKED = (
    "type properties items required nullable enum pattern minimum maximum maxItems format x-kubernetes-list-map-keys "
    "x-kubernetes-validations x-kubernetes-preserve-unknown-fields"
)
ANNOTATIONS = "default description x-kubernetes-list-type x-kubernetes-map-type"


def test_every_keyword_and_rule_of_the_definition_is_known() -> None:
    whole = definition.schema()
    keywords = {key for one in _schemas(whole) for key in one}
    assert keywords <= set(f"{CHECKED} {ANNOTATIONS}".split())
    rules = {rule["rule"] for one in _schemas(whole) for rule in one.get("x-kubernetes-validations", ())}
    assert rules == set(schema.RULES)


def advice(path: str, severity: str, value: object, message: str) -> tuple[dict[str, Any], str]:
    """SOUND with one field set, and how the line about it begins."""
    manifest, text = wrong(path, value, message)
    return manifest, f"{severity}: {text}"


FIELDS: dict[str, tuple[str, object, str]] = {
    f"{POD}/spec/restartPolicy": ("warning", None, "is missing, and means Always"),
    f"{POD}/spec/containers/0/comand": ("warning", [], "no Pod has such a field; did you mean command?"),
    f"{POD}/spec/affinity/nodeAffinity/required": ("warning", {}, "no Pod has such a field"),
    f"{POD}/spec/containers": ("error", [], "must be a list of at least one container"),
    f"{POD}/spec/containers/0/image": ("error", None, "is missing"),
    f"{ROLE}/dependsOn": ("error", depends_on("worker"), "waits for itself: worker -> worker; remove one of them"),
    f"{POLICY}/minSucceededTaskCount": ("warning", 3, "is 3, and the role has only 2 Tasks: it never counts"),
    f"{ROLE}/taskNumber": ("warning", 0, "is 0: the role has no Tasks until it is scaled"),
}
QUEUED = {"kueue.x-k8s.io/queue-name": "main"}
LONG = f"the Pod {'a' * 60}-worker-1 has more than 63 characters, so its host name is cut; use shorter names"
ADVICE: dict[str, tuple[dict[str, Any], str]] = {
    **{path: advice(path, *row) for path, row in FIELDS.items()},
    "suspended and stopped": (
        changed("spec", SOUND["spec"] | {"suspend": True, "executionType": "Stop"}),
        "warning: spec.suspend: has no effect: executionType Stop ends the Framework",
    ),
    "nothing to count": (changed("metadata/labels", QUEUED), "warning: spec.taskRoles: the Pods have neither"),
    "long names": (changed("metadata/name", "a" * 60), f"warning: spec.taskRoles[worker].name: {LONG}"),
}


@pytest.mark.parametrize(("manifest", "text"), ADVICE.values(), ids=ADVICE)
def test_what_would_not_run_as_it_was_meant(manifest: dict[str, Any], text: str) -> None:
    assert any(line.startswith(text) for line in found(manifest)), found(manifest)


ASKING: dict[str, dict[str, Any]] = {
    "a container, by limits": {"containers": [{"name": "a", "image": "b", "resources": {"limits": {"cpu": 1}}}]},
    "an init container": {"initContainers": [{"name": "c", "resources": {"requests": {"cpu": 1}}}]},
    "the Pod": {"resources": {"requests": {"cpu": 1}}},
}


@pytest.mark.parametrize("pod", ASKING.values(), ids=ASKING)
def test_a_queue_counts_what_is_asked_for(pod: dict[str, Any]) -> None:
    manifest = changed("metadata/labels", QUEUED)
    manifest["spec"]["taskRoles"][0]["task"]["pod"]["spec"] |= pod
    assert found(manifest) == []


def grouped(*pods: dict[str, Any], **asked: str) -> list[str]:
    """What is said of a Framework in groups of kube-scheduler with a role of each of these Pods."""
    container = {"name": "main", "image": "a"}
    roles = [
        {"name": f"r{number}", "taskNumber": 1, "task": {"pod": {"spec": {"containers": [container], **pod}}}}
        for number, pod in enumerate(pods)
    ]
    spec = {"taskRoles": roles, "gangScheduling": {"scheduler": "kubernetes", **asked}}
    return [line for line in found(changed("spec", spec)) if "restartPolicy" not in line]


def test_pods_that_do_not_fit_the_groups_in_which_a_scheduler_is_to_place_them() -> None:
    high = {"priorityClassName": "high"}
    assert grouped(high, high, **high) == []
    assert grouped({"schedulingGroup": {}}, scheduler="none") == []
    assert grouped({}, {"schedulerName": "mine"}, groupPer="TaskRole") == []
    assert grouped({}, {"schedulerName": "volcano"}, scheduler="volcano") == []
    assert grouped(high, high, scheduler="coscheduling") == []
    said = grouped({"schedulingGroup": {"podGroupName": "mine"}}, {"schedulerName": "mine"}, **high)
    assert [line.partition(": ")[2].partition(":")[0] for line in said] == [
        "spec.taskRoles[r0].task.pod.spec.schedulingGroup",
        *("spec.gangScheduling.priorityClassName",) * 2,
        "spec.gangScheduling.groupPer",
    ]


def gang(
    *roles: tuple[str, int], label: bool = True, command: str = "", gpus: int = 0, **annotations: str
) -> dict[str, Any]:
    """A Framework with the barrier, and these annotations on each role."""
    manifest = copy.deepcopy(SOUND)
    template = manifest["spec"]["taskRoles"][0]
    template["task"]["pod"]["metadata"] = {
        "labels": {"frameworkcontroller.microsoft.com/barrier": "enabled"} if label else {},
        "annotations": {f"{PREFIX}/{key.replace('_', '-')}": value for key, value in annotations.items()},
    }
    container = template["task"]["pod"]["spec"]["containers"][0]
    container |= {"command": command.split()} if command else {}
    container |= {"resources": {"limits": {"nvidia.com/gpu": gpus}}} if gpus else {}
    manifest["spec"]["taskRoles"] = [{**copy.deepcopy(template), "name": name, "taskNumber": n} for name, n in roles]
    return manifest


def workers(**more: Any) -> dict[str, Any]:
    return gang(("worker", 2), **more)


def torch(command: str, gpus: int = 8, **annotations: str) -> dict[str, Any]:
    return workers(command=command, gpus=gpus, preset="pytorch", **annotations)


OF_GANGS: dict[str, tuple[dict[str, Any], str]] = {
    "roles without ranks": (
        gang(("actor", 2), ("learner", 1), preset="pytorch"),
        "preset pytorch: none of the roles actor, learner is named master, worker: say which of them count as ranks",
    ),
    "no head": (gang(("a", 1), ("b", 2), preset="spark"), "say whose Task 0 is the head by FB_HEAD_ROLE=a"),
    "unknown preset": (workers(preset="pytorhc"), "pytorch"),
    "unknown annotation": (workers(presets="pytorch"), "presets"),
    "a value that is not valid": (workers(preset="pytorch", timeout="soon"), "timeout"),
    "no label": (
        workers(label=False, preset="pytorch"),
        f"has no frameworkcontroller.microsoft.com/barrier: enabled, so {PREFIX}/preset does nothing",
    ),
    "progress and hangs": (workers(progress="file", hang="restart", hang_limit="2"), ""),
    "unknown progress": (
        workers(progress="steps"),
        "progress is 'steps', but must be one or several of torch, file, http, ras",
    ),
    "progress of an image's program": (
        workers(progress="file,torch"),
        "progress is file,torch, but container 'a' has no command to wrap",
    ),
    "a limit of no hang": (workers(hang_limit="2"), "hang-limit has no effect without annotation"),
    "an end together": (workers(exit="together", command="python train.py"), ""),
    "an end together with an image's program": (workers(exit="together"), "has no command"),
    "torchrun": (torch("torchrun train.py"), ""),
    "torchrun as a module": (torch("python3 -m torch.distributed.run train.py"), ""),
    "python": (torch("/usr/bin/python3.11 train.py"), "/usr/bin/python3.11 starts one process for 8 GPUs"),
    "python for one GPU": (torch("python train.py", gpus=1), ""),
    "too few processes": (torch("torchrun", nproc_per_node="4"), "nproc-per-node is 4, and each Pod asks for 8 GPUs"),
}


@pytest.mark.parametrize(("manifest", "text"), OF_GANGS.values(), ids=OF_GANGS)
def test_what_injector_and_barrier_would_refuse(manifest: dict[str, Any], text: str) -> None:
    problems = lint(manifest)
    assert len(problems) == (len(manifest["spec"]["taskRoles"]) if text else 0), "each role has it"
    assert all(text in one.text and one.path.startswith("spec.taskRoles[") for one in problems), problems


def test_roles_that_cannot_restart_together() -> None:
    manifest = gang(("ps", 1), ("worker", 2), restart="in-place", wait_for="arrived")
    assert found(manifest) == []
    manifest["spec"]["taskRoles"][1]["dependsOn"] = depends_on("ps")
    text = "must begin together, but their dependsOn differ (ps: nothing; worker: ps)"
    assert any(text in one for one in found(manifest))
    del manifest["spec"]["taskRoles"][1]["dependsOn"]
    del manifest["spec"]["taskRoles"][1]["task"]["pod"]["metadata"]["annotations"][f"{PREFIX}/restart"]
    assert any("must ask for the same restart" in one for one in found(manifest))


LABELS = ",".join(f"label-{number:0>40}" for number in range(8))
UNNAMED = f"TaskRole ps has a barrier, and no annotation {names.RANK_TOPOLOGY_ANNOTATION}"
RANKED: dict[str, tuple[str | None, str, str]] = {
    "both": ("zone", "zone, block", ""),
    "one": (None, "zone", UNNAMED),
    "no label": ("zone", "a b", "rank-topology is 'a b', but must be 1 to 8 keys of labels of nodes"),
    "long labels": ("zone", LABELS, "in at most 250 characters"),
}


@pytest.mark.parametrize(("ps", "worker", "problem"), RANKED.values(), ids=RANKED)
def test_all_roles_with_a_barrier_name_labels_for_their_ranks_or_none(
    ps: str | None, worker: str, problem: str
) -> None:
    manifest = gang(("ps", 1), ("worker", 2))
    of_ps, of_worker = (role["task"]["pod"]["metadata"]["annotations"] for role in manifest["spec"]["taskRoles"])
    of_ps |= {names.RANK_TOPOLOGY_ANNOTATION: ps} if ps else {}
    of_worker[names.RANK_TOPOLOGY_ANNOTATION] = worker
    problems = found(manifest)
    assert len(problems) == bool(problem)
    assert problem in "".join(problems)
    of_ps[f"{PREFIX}/restart"] = "soon"
    assert problem in "".join(found(manifest))


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*/framework.yaml")), ids=lambda file: file.parent.name)
def test_the_examples_have_no_problems_and_can_be_read_and_rendered(file: Path) -> None:
    for example in (one for one in documents(file.read_text(), file.name) if one["kind"] == "Framework"):
        manifest = {"metadata": {"name": "named"}} | example
        # The program of an example may complete its manifest, which has no metadata then.
        assert (found(manifest) == []) is ("metadata" in example)
        framework = Framework.from_dict(manifest)
        assert Framework.from_yaml(framework.to_yaml()) == framework
        pods = list(pods_of(manifest, "demo", all_tasks=True))
        assert len(pods) == sum(role.get("taskNumber", 0) for role in manifest["spec"]["taskRoles"])


def test_a_rendered_pod_is_the_one_of_controller_and_injector_and_none_that_would_be_refused() -> None:
    manifest = gang(("worker", 3), preset="pytorch")
    container = manifest["spec"]["taskRoles"][0]["task"]["pod"]["spec"]["containers"][0]
    container["args"] = ["{{FC_POD_NAME}}", "{{FC_TASK_INDEX}}"]
    assert [task for task, _, _ in pods_of(manifest, "demo")] == ["worker-0"]
    _, last, _ = list(pods_of(manifest, "demo", all_tasks=True))[2]
    assert (last["metadata"]["name"], last["metadata"]["namespace"]) == ("sound-worker-2", "demo")
    assert last["spec"]["containers"][0]["args"] == ["sound-worker-2", "2"]
    assert [one["name"] for one in last["spec"]["initContainers"]] == ["frameworkbarrier"]
    assert next(iter(last)) == "apiVersion"
    with pytest.raises(ManifestError, match=r"spec.taskRoles\[worker\].task.pod: .*containers"):
        list(pods_of(gang(("worker", 1), preset="pytorch", containers="none"), "demo"))
