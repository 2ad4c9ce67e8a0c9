"""Golden Pods: each folder under golden/ holds a Pod and the outcome of its review.

`pod.yaml` goes in. One of these says what comes out: `injected.yaml` (the whole Pod, and `warnings.txt` if
there are any), `refused.txt` or `left-alone.txt` (the sentence). `case.yaml` may say `envFiles`, `foreignGangs` and
`inPlaceRestart`.
`FRAMEWORKINJECTOR_WRITE_GOLDENS=1` rewrites the outcomes; read the difference before committing it.
"""

import base64
import copy
import json
import os
from collections.abc import Sequence
from typing import Any

import jsonpatch
import pytest
import yaml

from frameworkinjector import names
from frameworkinjector.offline.documents import RenderError
from frameworkinjector.offline.render import rendered
from frameworkinjector.review.reasons import Reason, RefusalError, Ruling, Verdict
from tests.injector.golden_pods import CASES, GOLDEN, INJECTED, JSON, config_of, env_files_of, injected_of, pod_of
from tests.injector.random_fuzzer import check
from tests.injector.reviews import review_of
from tests.support.rows import each

WRITE = os.environ.get("FRAMEWORKINJECTOR_WRITE_GOLDENS") == "1"
GIVEN = {"pod.yaml", "case.yaml"}
KEY_REFERENCES = {"configMapKeyRef", "secretKeyRef"}

# Fields that a real review has beside those of `review_of`.
OTHER_FIELDS = {
    "resource": {"group": "", "version": "v1", "resource": "pods"},
    "userInfo": {"username": "a-user"},
    "oldObject": None,
    "dryRun": False,
    "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
}


def outcome(verdict: Verdict, pod: JSON, warnings: Sequence[str]) -> dict[str, Any]:
    """Return what the files of a folder say that comes out: a Pod, or lines of text, by the name of the file."""
    match verdict.reason.ruling:
        case Ruling.INJECTED:
            return {"injected.yaml": pod, **({"warnings.txt": list(warnings)} if warnings else {})}
        case Ruling.LEFT_ALONE:
            return {"left-alone.txt": [verdict.sentence]}
        case _:
            return {"refused.txt": [verdict.sentence]}


def golden_outcome(case: str) -> dict[str, Any]:
    files = [file for file in (GOLDEN / case).iterdir() if file.name not in GIVEN]
    return {
        file.name: yaml.safe_load(file.read_text()) if file.suffix == ".yaml" else file.read_text().splitlines()
        for file in files
    }


class _Dumper(yaml.SafeDumper):
    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: object) -> bool:
        return True


def write(case: str, found: dict[str, Any]) -> None:
    for name in golden_outcome(case):
        (GOLDEN / case / name).unlink()
    for name, content in found.items():
        text = "\n".join([*content, ""]) if isinstance(content, list) else ""
        (GOLDEN / case / name).write_text(text or yaml.dump(content, Dumper=_Dumper, sort_keys=False, width=120))


def reviewed(case: str) -> tuple[Verdict, JSON]:
    """Return the verdict on a golden Pod, and the response; `check` asserts that nothing of the Pod is lost."""
    given = check(review_of(pod_of(case), **OTHER_FIELDS), env_files_of(case), config_of(case))
    decoded = json.loads(given.body)
    assert (decoded["apiVersion"], decoded["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    assert decoded["response"]["uid"] == "705ab4f5-6393-11e8-b7cc-42010a800002"
    return given.verdict, decoded["response"]


def patched(pod: JSON, response: JSON) -> JSON:
    """Apply the patch, if there is one, with a library that is independent of this project."""
    if "patch" not in response:
        return pod
    assert response["patchType"] == "JSONPatch"
    operations = json.loads(base64.b64decode(response["patch"], validate=True))
    result: JSON = jsonpatch.apply_patch(copy.deepcopy(pod), operations)
    return result


@each("case", CASES)
def test_the_outcome_is_the_golden_one(case: str) -> None:
    verdict, response = reviewed(case)
    found = outcome(verdict, patched(pod_of(case), response), response.get("warnings", []))
    if WRITE:
        write(case, found)
    assert found == golden_outcome(case)
    if "refused.txt" in found:
        assert (response["status"]["message"], response["status"]["code"]) == (verdict.sentence, 422)


def outcome_without_a_server(case: str) -> dict[str, Any]:
    pod = pod_of(case)
    try:
        result, (found,) = rendered(pod, config_of(case), env_files_of(case))
    except RefusalError as refusal:
        return outcome(refusal.verdict, pod, ())
    assert found.where == ""
    return outcome(found.verdict, result, found.warnings)


@each("case", CASES)
def test_without_a_server_the_outcome_is_the_same(case: str) -> None:
    if case in {"refused-malformed", "refused-no-containers"}:
        with pytest.raises(RenderError):
            outcome_without_a_server(case)
    else:
        assert outcome_without_a_server(case) == golden_outcome(case)


def test_without_a_server_the_namespace_is_that_of_the_pod_if_it_says_one() -> None:
    case = "preset-tensorflow-file"
    pod, golden = pod_of(case), injected_of(case)
    pod["metadata"]["namespace"] = golden["metadata"]["namespace"] = "demo"
    assert rendered(pod, config_of(case), env_files_of(case), "another")[0] == golden


def test_there_is_a_golden_pod_for_each_reason_that_a_pod_can_be_given() -> None:
    not_about_the_pod = {Reason.NOT_A_POD, Reason.POD_TEMPLATE, Reason.NOT_A_CREATE, Reason.INTERNAL_ERROR}
    # Too large for a file: see test_large_pods.py.
    large = {Reason.TOO_MANY_CONTAINERS, Reason.POD_TOO_LARGE, Reason.PATCH_TOO_LARGE}
    of_pods = {one for one in Reason if one.ruling is not Ruling.REJECTED} - not_about_the_pod - large
    assert {reviewed(case)[0].reason for case in CASES} == of_pods


@each("case", INJECTED)
def test_the_result_passes_what_the_api_server_checks_by_name_and_says_what_was_done(case: str) -> None:
    after = injected_of(case)
    spec = after["spec"]
    *_, barrier = spec["initContainers"]
    volumes = [volume["name"] for volume in spec["volumes"]]
    assert len(volumes) == len(set(volumes))
    for container in (*spec["containers"], barrier):
        paths = [mount["mountPath"] for mount in container.get("volumeMounts", [])]
        assert len(paths) == len(set(paths))
        assert {mount["name"] for mount in container.get("volumeMounts", [])} <= set(volumes) | {"d"}
        # A variable may be there once more from each source of envFrom.
        env = [one["name"] for one in container.get("env", []) if not one.get("valueFrom", {}).keys() & KEY_REFERENCES]
        assert len(env) == len(set(env))
    safe = {"runAsNonRoot": True, "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    assert barrier["securityContext"].items() >= {**safe, "seccompProfile": {"type": "RuntimeDefault"}}.items()
    assert (barrier["name"], barrier["securityContext"]["runAsUser"] > 0) == ("frameworkbarrier", True)
    status = json.loads(after["metadata"]["annotations"][names.STATUS])
    assert (status["reason"], status["version"]) == ("injected", "1.2.3")
    assert ("fileKeyRef" in json.dumps(spec["containers"])) == (status["env"] == "file")
