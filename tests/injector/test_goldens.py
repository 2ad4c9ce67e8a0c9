"""Golden Pods: each folder under golden/ holds a Pod and the outcome of its review.

`pod.yaml` goes in. One of these says what comes out: `injected.yaml` (the whole Pod, and `warnings.txt` if
there are any), `refused.txt` or `left-alone.txt` (the sentence). `case.yaml` may say `envFiles`, `foreignGangs` and
`inPlaceRestart`.
`FRAMEWORKINJECTOR_WRITE_GOLDENS=1` rewrites the outcomes; read the difference before committing it.
"""

from __future__ import annotations

import base64
import copy
import json
import os
from typing import TYPE_CHECKING, Any

import jsonpatch
import pytest
import yaml

from frameworkinjector.offline.documents import RenderError
from frameworkinjector.offline.render import rendered
from frameworkinjector.review.reasons import Reason, RefusalError, Ruling
from frameworkinjector.review.review import Answer, answer
from tests.injector.golden_pods import (
    CASES,
    GOLDEN,
    INJECTED,
    JSON,
    REFUSED,
    config_of,
    env_files_of,
    injected_of,
    pod_of,
)
from tests.injector.random_fuzzer import check
from tests.injector.reviews import review_of
from tests.support.rows import each

if TYPE_CHECKING:
    from collections.abc import Iterator

OUTCOMES = {"injected.yaml", "refused.txt", "left-alone.txt"}
WRITE = os.environ.get("FRAMEWORKINJECTOR_WRITE_GOLDENS") == "1"
KEY_REFERENCES = {"configMapKeyRef", "secretKeyRef"}
PREFIX = "barrier.frameworkcontroller.microsoft.com/"

# Fields that a real review has beside those of `review_of`.
OTHER_FIELDS = {
    "resource": {"group": "", "version": "v1", "resource": "pods"},
    "userInfo": {"username": "a-user"},
    "oldObject": None,
    "dryRun": False,
    "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
}


def answer_to(case: str, pod: JSON) -> tuple[Answer, JSON]:
    given = answer(review_of(pod, **OTHER_FIELDS), config_of(case), env_files_of(case))
    assert given.status == 200
    decoded = json.loads(given.body)
    assert (decoded["apiVersion"], decoded["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    assert decoded["response"]["uid"] == "705ab4f5-6393-11e8-b7cc-42010a800002"
    response: JSON = decoded["response"]
    return given, response


def operations_of(response: JSON) -> list[JSON]:
    if "patch" not in response:
        return []
    assert response["patchType"] == "JSONPatch"
    operations: list[JSON] = json.loads(base64.b64decode(response["patch"], validate=True))
    return operations


def patched(pod: JSON, operations: list[JSON]) -> JSON:
    """Apply the patch with a library that is independent of this project."""
    result: JSON = jsonpatch.apply_patch(copy.deepcopy(pod), operations)
    return result


class _Dumper(yaml.SafeDumper):
    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: object) -> bool:
        return True


def as_yaml(pod: JSON) -> str:
    dumped: str = yaml.dump(pod, Dumper=_Dumper, sort_keys=False, width=120)
    return dumped


def write(case: str, given: Answer, response: JSON, pod: JSON) -> None:
    folder = GOLDEN / case
    for name in (*OUTCOMES, "warnings.txt"):
        (folder / name).unlink(missing_ok=True)
    match given.verdict.reason.ruling:
        case Ruling.INJECTED:
            (folder / "injected.yaml").write_text(as_yaml(patched(pod, operations_of(response))))
            if "warnings" in response:
                (folder / "warnings.txt").write_text("\n".join(response["warnings"]) + "\n")
        case Ruling.LEFT_ALONE:
            (folder / "left-alone.txt").write_text(given.verdict.sentence + "\n")
        case _:
            (folder / "refused.txt").write_text(given.verdict.sentence + "\n")


@each("case", CASES)
def test_the_outcome_is_the_golden_one(case: str) -> None:
    pod, folder = pod_of(case), GOLDEN / case
    given, response = answer_to(case, pod)
    if WRITE:
        write(case, given, response, pod)
    files = {path.name for path in folder.iterdir()}
    assert files <= {"pod.yaml", "case.yaml", "warnings.txt", *OUTCOMES}, "nothing reads one of the files"
    (expected,) = OUTCOMES & files
    if expected == "injected.yaml":
        assert patched(pod, operations_of(response)) == injected_of(case)
        warnings = folder / "warnings.txt"
        assert response.get("warnings", []) == (warnings.read_text().splitlines() if warnings.exists() else [])
        assert response["allowed"] is True
        return
    assert given.verdict.sentence == (folder / expected).read_text().rstrip("\n")
    assert operations_of(response) == []
    assert response["allowed"] is (expected == "left-alone.txt")
    if expected == "refused.txt":
        assert response["status"]["message"] == given.verdict.sentence
        assert response["status"]["code"] == 422


def test_there_is_a_golden_pod_for_each_reason_that_a_pod_can_be_given() -> None:
    given = {answer_to(case, pod_of(case))[0].verdict.reason for case in CASES}
    not_about_the_pod = {Reason.NOT_A_POD, Reason.NOT_A_CREATE, Reason.INTERNAL_ERROR}
    # Too large for a file: see test_large_pods.py.
    large = {Reason.TOO_MANY_CONTAINERS, Reason.POD_TOO_LARGE, Reason.PATCH_TOO_LARGE}
    of_pods = {one for one in Reason if one.ruling is not Ruling.REJECTED} - not_about_the_pod - large
    assert given == of_pods


def wrapper_of(pod: JSON) -> str:
    folder: str = (pod["metadata"].get("annotations") or {}).get(PREFIX + "output-dir", "/mnt/frameworkbarrier")
    return f"{folder}/run"


def removed(value: Any, added: Any, path: str = "") -> Iterator[str]:
    """Yield each path of `value` that is missing in `added`, or is there in another order."""
    if isinstance(value, dict) and isinstance(added, dict):
        for key in value:
            if key not in added:
                yield f"{path}/{key}"
            else:
                yield from removed(value[key], added[key], f"{path}/{key}")
    elif isinstance(value, list) and isinstance(added, list):
        rest = iter(added)
        for position, item in enumerate(value):
            if not any(not list(removed(item, candidate)) for candidate in rest):
                yield f"{path}/{position}"
    elif value is None or value == []:
        # A list may replace an empty one or null.
        return
    elif value != added:
        yield path


@each("case", INJECTED)
def test_a_patch_only_adds_but_to_a_wrapped_command_and_what_has_it_is_left_alone(case: str) -> None:
    assert check(review_of(pod_of(case)), env_files_of(case), config_of(case)).verdict.reason is Reason.INJECTED


@each("case", INJECTED)
def test_nothing_of_the_users_pod_is_lost_or_reordered(case: str) -> None:
    pod, after = pod_of(case), injected_of(case)
    wrapper = wrapper_of(pod)
    for container in after["spec"]["containers"]:
        if (container.get("command") or [""])[0] == wrapper:
            container["command"] = container["command"][1:]
    pod["metadata"].get("annotations", {}).pop(PREFIX + "status", None)
    assert list(removed(pod, after)) == []


@each("case", INJECTED)
def test_the_result_passes_what_the_api_server_checks_by_name(case: str) -> None:
    spec = injected_of(case)["spec"]
    volumes = [volume["name"] for volume in spec["volumes"]]
    assert len(volumes) == len(set(volumes))
    assert spec["initContainers"][-1]["name"] == "frameworkbarrier"
    for container in (*spec["containers"], spec["initContainers"][-1]):
        paths = [mount["mountPath"] for mount in container.get("volumeMounts", [])]
        assert len(paths) == len(set(paths))
        assert {mount["name"] for mount in container.get("volumeMounts", [])} <= set(volumes) | {"d"}
        # A variable may be there once more from each source of envFrom.
        env = [one["name"] for one in container.get("env", []) if not one.get("valueFrom", {}).keys() & KEY_REFERENCES]
        assert len(env) == len(set(env))
    security = spec["initContainers"][-1]["securityContext"]
    assert security["runAsUser"] > 0
    assert (security["runAsNonRoot"], security["allowPrivilegeEscalation"]) == (True, False)
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}


@each("case", INJECTED)
def test_the_status_annotation_says_what_was_done(case: str) -> None:
    after = injected_of(case)
    status = json.loads(after["metadata"]["annotations"][PREFIX + "status"])
    assert (status["reason"], status["version"]) == ("injected", "1.2.3")
    references = "fileKeyRef" in json.dumps(after["spec"]["containers"])
    assert references == (status["env"] == "file")


@each("case", INJECTED)
def test_without_a_server_the_result_is_what_the_webhook_would_make_of_the_pod(case: str) -> None:
    # The golden outcomes are those of the namespace demo, which the Pod or the caller says.
    result, (found,) = rendered(pod_of(case), config_of(case), env_files_of(case), "demo")
    assert (result, found.where, found.verdict.reason) == (injected_of(case), "", Reason.INJECTED)
    pod = pod_of(case)
    pod["metadata"]["namespace"] = "demo"
    golden = injected_of(case)
    golden["metadata"]["namespace"] = "demo"
    assert rendered(pod, config_of(case), env_files_of(case))[0] == golden


@each("case", REFUSED)
def test_without_a_server_a_refusal_has_the_sentence_of_the_webhook(case: str) -> None:
    if case in {"refused-malformed", "refused-no-containers"}:
        with pytest.raises(RenderError):
            rendered(pod_of(case), config_of(case), env_files_of(case))
        return
    with pytest.raises(RefusalError) as refusal:
        rendered(pod_of(case), config_of(case), env_files_of(case))
    assert f"{refusal.value}\n" == (GOLDEN / case / "refused.txt").read_text()
