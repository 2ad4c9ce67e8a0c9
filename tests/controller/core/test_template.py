"""From a role's Pod template to the Pods of its Tasks."""

from __future__ import annotations

import copy
import dataclasses
import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from frameworkcontroller import __version__
from frameworkcontroller.api import names
from frameworkcontroller.api.spec import MAX_ROLES, FrameworkSpec, TaskSpec
from frameworkcontroller.core.pods import facts
from frameworkcontroller.core.pods.facts import RoleFacts, SpecFacts, facts_of
from frameworkcontroller.core.pods.template import MAX_POD_BYTES, PodTemplate, RoleAttempt, TemplateError
from tests.controller.core.values import role, spec

ATTEMPT = RoleAttempt(
    namespace="a-namespace",
    framework="fw",
    framework_uid="framework-uid",
    framework_attempt_id=3,
    config_map_uid="config-map-uid",
    role="worker",
    role_uid="role-uid",
)
MINIMAL = {"spec": {"containers": [{"name": "main", "image": "x"}]}}


def rendered(template: Any, index: int = 7, task_uid: str = "task-uid", attempt: int = 2) -> dict[str, Any]:
    text = PodTemplate(json.dumps(template).encode(), ATTEMPT).render(index, task_uid, attempt)
    pod = json.loads(text)
    assert isinstance(pod, dict)
    return pod


# --- 1: placeholders -------------------------------------------------------------------------------------------------

PLACEHOLDERS = {
    "{{FC_FRAMEWORK_NAMESPACE}}": "a-namespace",
    "{{FC_FRAMEWORK_NAME}}": "fw",
    "{{FC_TASKROLE_NAME}}": "worker",
    "{{FC_TASK_INDEX}}": "7",
    "{{FC_CONFIGMAP_NAME}}": "fw-attempt",
    "{{FC_POD_NAME}}": "fw-worker-7",
    "{{FC_POD_NAME}}{{FC_POD_NAME}}": "fw-worker-7fw-worker-7",
    "x{{FC_TASK_INDEX}}y{{FC_FRAMEWORK_NAME}}z": "x7yfwz",
    "{{{FC_TASK_INDEX}}}": "{7}",
    "{{{{FC_TASK_INDEX}}}}": "{{7}}",
    "{{FC_TASK_INDEX}": "{{FC_TASK_INDEX}",
    "{{ FC_TASK_INDEX }}": "{{ FC_TASK_INDEX }}",
    "{{fc_task_index}}": "{{fc_task_index}}",
    "{{FC_TASK_UID}}": "{{FC_TASK_UID}}",
    "{{FC_TASK_ATTEMPT_ID}}": "{{FC_TASK_ATTEMPT_ID}}",
    "{{FC_FRAMEWORK_UID}}": "{{FC_FRAMEWORK_UID}}",
    "{{FC_CONFIGMAP_UID}}": "{{FC_CONFIGMAP_UID}}",
    "{{FC_POD_UID}}": "{{FC_POD_UID}}",
    "{{OTHER}}": "{{OTHER}}",
    "{{}}": "{{}}",
    "{{FC_{{FC_TASK_INDEX}}}}": "{{FC_7}}",
    '"{{FC_TASK_INDEX}}"\n\\ é 😀': '"7"\n\\ é 😀',
}


@pytest.mark.parametrize(("text", "expected"), PLACEHOLDERS.items(), ids=PLACEHOLDERS)
def test_a_placeholder_is_replaced_wherever_a_string_is(text: str, expected: str) -> None:
    template = {
        "metadata": {"annotations": {text: "key", "value": text}},
        "spec": {"containers": [{"name": "main", "args": ["first", text], "deep": [[{"er": text}]]}]},
    }
    pod = rendered(template)
    assert pod["metadata"]["annotations"][expected] == "key"
    assert pod["metadata"]["annotations"]["value"] == expected
    main = pod["spec"]["containers"][0]
    assert (main["args"], main["deep"]) == (["first", expected], [[{"er": expected}]])


def test_a_placeholder_may_not_smuggle_in_a_uid() -> None:
    """The marks of what differs between Tasks are not in a user's alphabet: no user knows the UID when writing."""
    text = "{{framework-uid2:FC_TASK_UID}}"
    assert rendered({"metadata": {"labels": {"x": text}}})["metadata"]["labels"]["x"] == text


# --- 2 to 6: name, namespace, owner, annotations, labels, environment, termination message ----------------------------

OWNER = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "name": "fw-attempt",
    "uid": "config-map-uid",
    "controller": True,
    "blockOwnerDeletion": True,
}

ANNOTATIONS = {
    "FC_FRAMEWORK_NAMESPACE": "a-namespace",
    "FC_FRAMEWORK_NAME": "fw",
    "FC_TASKROLE_NAME": "worker",
    "FC_TASK_INDEX": "7",
    "FC_CONFIGMAP_NAME": "fw-attempt",
    "FC_POD_NAME": "fw-worker-7",
    "FC_FRAMEWORK_UID": "framework-uid",
    "FC_FRAMEWORK_ATTEMPT_ID": "3",
    "FC_FRAMEWORK_ATTEMPT_INSTANCE_UID": "3_config-map-uid",
    "FC_CONFIGMAP_UID": "config-map-uid",
    "FC_TASKROLE_UID": "role-uid",
    "FC_TASK_UID": "task-uid",
    "FC_TASK_ATTEMPT_ID": "2",
}
OF_THE_VERSION = {"frameworkcontroller.microsoft.com/controller-version": __version__}
LABELS = {"FC_FRAMEWORK_NAME": "fw", "FC_TASKROLE_NAME": "worker", "FC_TASK_INDEX": "7"}

ENVIRONMENT = [
    *({"name": name, "value": value} for name, value in ANNOTATIONS.items()),
    {"name": "FC_POD_UID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
    {"name": "FC_TASK_ATTEMPT_INSTANCE_UID", "value": "2_$(FC_POD_UID)"},
]


def test_a_pod_is_its_template_with_all_that_makes_it_the_pod_of_its_task() -> None:
    mine = {"mine": "kept", "FC_TASK_INDEX": "a lie"}
    variables = [{"name": "MINE", "value": "$(FC_TASK_INDEX)"}, {"name": "FC_TASK_INDEX", "value": "99"}]
    other_owner = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}
    metadata = {"name": "mine", "namespace": "theirs", "generateName": "some-", "annotations": mine}
    labels = mine | {names.RETAINED_LABEL: "true"}
    template = {
        "apiVersion": "v7",
        "kind": "Deployment",
        "metadata": metadata | {"labels": labels, "ownerReferences": [other_owner], "finalizers": ["kept"]},
        "spec": {
            "restartPolicy": "Never",
            "initContainers": [{"name": "first", "env": variables}, {"name": "second"}],
            "containers": [
                {"name": "first", "env": variables},
                {"name": "second", "terminationMessagePolicy": "File"},
            ],
        },
    }
    on_error = {"terminationMessagePolicy": "FallbackToLogsOnError"}
    assert rendered(template) == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "fw-worker-7",
            "namespace": "a-namespace",
            "annotations": {"mine": "kept"} | ANNOTATIONS | OF_THE_VERSION,
            "labels": {"mine": "kept"} | LABELS,
            "ownerReferences": [other_owner, OWNER],
            "finalizers": ["kept"],
        },
        "spec": {
            "restartPolicy": "Never",
            "initContainers": [
                {"name": "first", "env": ENVIRONMENT + variables} | on_error,
                {"name": "second", "env": ENVIRONMENT} | on_error,
            ],
            "containers": [
                {"name": "first", "env": ENVIRONMENT + variables} | on_error,
                {"name": "second", "env": ENVIRONMENT, "terminationMessagePolicy": "File"},
            ],
        },
    }


# --- unusual and hostile templates -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("template", "message"),
    [
        (None, "pod template must be an object, not null"),
        ([], "pod template must be an object, not array"),
        ("x", "pod template must be an object, not str"),
        ({"metadata": []}, "pod metadata must be an object, not array"),
        ({"metadata": {"labels": []}}, "pod metadata.labels must be an object, not array"),
        ({"metadata": {"annotations": "x"}}, "pod metadata.annotations must be an object, not str"),
        ({"metadata": {"ownerReferences": {}}}, "pod metadata.ownerReferences must be an array"),
        ({"spec": "x"}, "pod spec must be an object, not str"),
        ({"spec": {"containers": {"a": 1}}}, "pod spec.containers must be an array, not object"),
        ({"spec": {"containers": {}}}, "pod spec.containers must be an array, not object"),
        ({"spec": {"containers": 0}}, "pod spec.containers must be an array, not int"),
        ({"spec": {"initContainers": "x"}}, "pod spec.initContainers must be an array, not str"),
        ({"spec": {"containers": [{}, None]}}, r"pod spec.containers\[1\] must be an object, not null"),
        ({"spec": {"containers": [{"env": "x"}]}}, r"pod spec.containers\[0\].env must be an array"),
        ({"spec": {"initContainers": [{"env": {}}]}}, r"pod spec.initContainers\[0\].env must be an array"),
    ],
)
def test_what_cannot_become_a_pod_is_an_error_that_names_the_field(template: object, message: str) -> None:
    with pytest.raises(TemplateError, match=f"^{message}$"):
        rendered(template)


def test_a_template_is_never_too_deep_for_a_clear_answer() -> None:
    answers = set()
    for depth in (*range(500, 1100, 3), 100_000):
        deep = b'{"metadata":' + b'{"a":' * depth + b"1" + b"}" * depth + b"}"
        try:
            PodTemplate(deep, ATTEMPT)
        except TemplateError as error:
            answers.add(str(error))
        facts_of(spec(role("worker", 1, task=TaskSpec(pod=Raw(deep)))))
    assert answers == {"pod template is nested too deeply"}


MANY = {
    "containers": {"spec": {"containers": [{}] * 257}},
    "of all kinds": {"spec": {kind: [{}] * 100 for kind in ("initContainers", "containers", "ephemeralContainers")}},
    "as many as fit": {"spec": {"initContainers": [{}] * 450_000}},
    "of a field that is named by a placeholder": {"spec": {"{{FC_TASKROLE_NAME}}": [{}] * 257}},
}


@pytest.mark.parametrize("template", MANY.values(), ids=MANY)
def test_a_pod_may_have_256_containers_of_all_kinds(template: dict[str, Any]) -> None:
    text = json.dumps(template, separators=(",", ":")).encode()
    attempt = dataclasses.replace(ATTEMPT, role="containers")
    with pytest.raises(
        TemplateError, match=r"^pod spec has [0-9]+ containers, and may have 256 \(maxContainersOfPod\)"
    ):
        PodTemplate(text, attempt)
    assert facts_of(spec(role("containers", 1, task=TaskSpec(pod=Raw(text))))).problems == {}


def test_256_containers_make_a_pod() -> None:
    text = json.dumps({"spec": {"containers": [{}] * 200, "initContainers": [{}] * 56}}).encode()
    assert PodTemplate(text, ATTEMPT).render(0, "uid", 0).count(b'"FC_POD_UID"') == 256


def test_a_framework_may_have_10_000_containers() -> None:
    text = Raw(json.dumps({"spec": {"containers": [{}] * 250}}).encode())
    roles = [role(f"r{number}", 1, task=TaskSpec(pod=text)) for number in range(40)]
    assert facts_of(spec(*roles)).problems == {}
    one = role("more", 1, task=TaskSpec(pod=Raw(b'{"spec":{"containers":[{}]}}')))
    nothing = role("nothing", 1, task=TaskSpec(pod=Raw(b'{"spec":{}}')))
    (name, why), (other, _) = facts_of(spec(*roles, one, nothing)).problems.items()
    assert (name, other) == ("more", "nothing")
    assert "up to more have 10001 containers, and those of a Framework may have 10000 (maxContainersOfFramework)" in why


def test_templates_are_read_again_only_if_their_bytes_have_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[bytes] = []
    monkeypatch.setattr(facts, "read", lambda pod: taken.append(bytes(pod)) or RoleFacts())
    templates = facts.Templates()
    large = b'{"x":"' + b"y" * facts.LARGE_BYTES + b'"}'

    def wanted(first: bytes) -> FrameworkSpec:
        return spec(*(role(name, 1, task=TaskSpec(pod=Raw(pod))) for name, pod in (("a", first), ("b", b"{}"))))

    templates.facts(wanted(b'{"spec":{}}'))
    templates.facts(wanted(b'{"spec":{}}'))
    assert taken == [b'{"spec":{}}', b"{}"]
    (key,) = templates.unread(wanted(large))
    templates.learn({key: RoleFacts()})
    assert not templates.unread(wanted(large))
    templates.facts(wanted(large))
    assert len(taken) == 2, "it was read elsewhere"


def test_of_states_that_were_edited_before_they_were_followed_few_templates_are_kept() -> None:
    """25 edits a second of 20 Frameworks made a controller 5.5 MB larger each second."""
    templates = facts.Templates()
    followed = spec(role("a", 1, task=TaskSpec(pod=Raw(b'{"spec":{}}'))))
    templates.facts(followed)
    for edit in range(10):
        templates.learn({f"{edit}-{place}".encode(): RoleFacts() for place in range(MAX_ROLES)})
    assert len(templates._read) <= facts.LEARNED + MAX_ROLES
    assert templates._read.keys() >= set(templates._followed)


LARGE = {
    "placeholders": MINIMAL | {"metadata": {"annotations": {"x": "{{FC_POD_NAME}}" * 90_000}}},
    "data": MINIMAL | {"metadata": {"annotations": {"x": "x" * 3 * 1024 * 1024}}},
}


@pytest.mark.parametrize("template", LARGE.values(), ids=LARGE)
def test_a_pod_that_is_too_large_is_refused_before_it_is_built(template: dict[str, Any]) -> None:
    text = json.dumps(template, separators=(",", ":")).encode()
    attempt = dataclasses.replace(ATTEMPT, framework="f" * 63, role="containers")
    tracemalloc.start()
    try:
        with pytest.raises(TemplateError, match=r"^each Pod of TaskRole containers would have at least [0-9]{7,9} b"):
            PodTemplate(text, attempt)
        facts_of(spec(role("containers", 1, task=TaskSpec(pod=Raw(text)))))
        assert tracemalloc.get_traced_memory()[1] < 10 * len(text)
    finally:
        tracemalloc.stop()


def test_the_largest_pod_that_may_be_asked_for_is_built() -> None:
    """Below the bound the API server decides."""
    text = json.dumps(MINIMAL | {"metadata": {"annotations": {"x": "x" * (MAX_POD_BYTES - 5000)}}}).encode()
    assert MAX_POD_BYTES - 5000 < len(PodTemplate(text, ATTEMPT).render(0, "uid", 0)) < MAX_POD_BYTES


# --- against a straightforward implementation ------------------------------------------------------------------------


def straightforward(template: Any, index: int, task_uid: str, task_attempt: int) -> Any:
    """Section 4 of the Framework API read aloud: copy, replace, set."""
    values = ANNOTATIONS | {
        "FC_TASK_INDEX": str(index),
        "FC_POD_NAME": f"fw-worker-{index}",
        "FC_TASK_UID": task_uid,
        "FC_TASK_ATTEMPT_ID": str(task_attempt),
    }
    known = ("FRAMEWORK_NAMESPACE", "FRAMEWORK_NAME", "TASKROLE_NAME", "TASK_INDEX", "CONFIGMAP_NAME", "POD_NAME")

    def replaced(value: Any) -> Any:
        match value:
            case str():
                for name in known:
                    value = value.replace("{{FC_" + name + "}}", values["FC_" + name])
                return value
            case list():
                return [replaced(one) for one in value]
            case dict():
                return {replaced(key): replaced(one) for key, one in value.items()}
        return value

    pod = replaced(copy.deepcopy(template)) | {"apiVersion": "v1", "kind": "Pod"}
    metadata = pod["metadata"] = dict(pod.get("metadata") or {})
    metadata |= {"name": f"fw-worker-{index}", "namespace": "a-namespace"}
    metadata.pop("generateName", None)
    metadata["ownerReferences"] = [*(metadata.get("ownerReferences") or []), OWNER]
    metadata["annotations"] = (metadata.get("annotations") or {}) | values | OF_THE_VERSION
    metadata["labels"] = (metadata.get("labels") or {}) | {name: values[name] for name in LABELS}
    spec = pod["spec"] = dict(pod.get("spec") or {})
    for kind in ("containers", "initContainers"):
        for one in spec.get(kind) or []:
            environment: list[Any] = [{"name": name, "value": value} for name, value in values.items()]
            environment += copy.deepcopy(ENVIRONMENT[-2:-1])
            environment += [{"name": "FC_TASK_ATTEMPT_INSTANCE_UID", "value": f"{task_attempt}_$(FC_POD_UID)"}]
            one["env"] = environment + (one.get("env") or [])
            if not one.get("terminationMessagePolicy"):
                one["terminationMessagePolicy"] = "FallbackToLogsOnError"
    return pod


UNKNOWN: dict[str, Any] = {
    "big": 2**63,
    "small": -(2**63),
    "exact": 0.1,
    "no": None,
    "yes": True,
    "text": "\x7f\u2028",
    "list": [[]],
}
EXAMPLES: dict[str, dict[str, Any]] = {
    "empty": {},
    "null metadata and spec": {"metadata": None, "spec": None},
    "null metadata fields": {"metadata": {"annotations": None, "labels": None, "ownerReferences": None}},
    "null lists": {"spec": {"containers": None, "initContainers": None}},
    "null fields of a container": {"spec": {"containers": [{"env": None, "terminationMessagePolicy": None}]}},
    "an empty policy": {"spec": {"containers": [{"terminationMessagePolicy": ""}]}},
    "empty lists": {"spec": {"containers": [], "initContainers": []}},
    "fields of any version": UNKNOWN | {"spec": UNKNOWN | {"containers": [UNKNOWN]}},
    "a placeholder names a field before it is looked at": {"metadata": {"{{FC_FRAMEWORK_NAME}}": 1}},
}


@pytest.mark.parametrize("template", EXAMPLES.values(), ids=EXAMPLES)
def test_what_is_absent_null_or_unknown_is_made_or_kept(template: dict[str, Any]) -> None:
    assert rendered(template) == straightforward(template, 7, "task-uid", 2)


def test_pods_of_one_template_differ_only_by_their_task() -> None:
    template = PodTemplate(json.dumps(MINIMAL).encode(), ATTEMPT)
    for index, task_uid, attempt in ((0, "a", 0), (10_000, "b", 5), (0, "a", 0)):
        pod = json.loads(template.render(index, task_uid, attempt))
        assert pod == straightforward(MINIMAL, index, task_uid, attempt)


strings = st.lists(st.sampled_from([*PLACEHOLDERS, "", "a", "}}", "{{", "FC_POD_NAME", "$(X)", "é", '"', "\\"])).map(
    "".join
)
scalars = (
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(-1e9, 1e9).map(lambda x: round(x, 3)) | strings
)
anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(strings, inner, max_size=3), max_leaves=6
)
maps = st.none() | st.dictionaries(strings, strings, max_size=3)


def optional(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


containers = optional(
    name=strings,
    args=st.lists(strings, max_size=2),
    env=st.none() | st.lists(st.fixed_dictionaries({"name": strings, "value": strings}), max_size=2),
    terminationMessagePolicy=st.sampled_from([None, "", "File"]),
    new=anything,
)
templates = optional(
    kind=strings,
    new=anything,
    metadata=st.none()
    | optional(
        name=strings,
        generateName=strings,
        annotations=maps,
        labels=maps,
        ownerReferences=st.none() | st.lists(st.dictionaries(strings, strings, max_size=2), max_size=2),
        new=anything,
    ),
    spec=st.none()
    | optional(
        containers=st.none() | st.lists(containers, max_size=2),
        initContainers=st.none() | st.lists(containers, max_size=2),
        new=anything,
    ),
)


@settings(max_examples=300)
@given(templates, st.integers(0, 9999), st.uuids().map(str), st.integers(0, 99))
def test_every_template_becomes_what_a_straightforward_reading_of_the_rules_makes(
    template: dict[str, Any], index: int, task_uid: str, task_attempt: int
) -> None:
    assert rendered(template, index, task_uid, task_attempt) == straightforward(template, index, task_uid, task_attempt)


# --- what is read of templates ---------------------------------------------------------------------------------------


def template_of(number: str) -> bytes:
    limits = f'{{"nvidia.com/gpu": {number}, "memory": 1e308, "x/gpu": 1e308}}'
    return b'{"spec":{"containers":[{"name":"main","resources":{"limits":%s}}]}}' % limits.encode()


@pytest.mark.parametrize(
    ("number", "gpus"), [("8", 8), ('"8"', 8), ("8.0", 0), ("1e308", 0), ('"1Ki"', 0), ("9999999", 0), ("null", 0)]
)
def test_gpus_are_whole_numbers_as_they_are_written(number: str, gpus: int) -> None:
    """To print 93,000 numbers like 1e308 took 1.5 s of a turn."""
    assert facts.read(template_of(number)).gpus == gpus


def test_many_templates_that_are_large_together_are_read_beside_the_loop() -> None:
    pods = [Raw(b'{"x":"%s%d"}' % (b"x" * 1000, place)) for place in range(100)]
    roles = [role(f"r{place}", 1, task=TaskSpec(pod=pod)) for place, pod in enumerate(pods)]
    few, many = facts.Templates(), facts.Templates()
    assert few.unread(spec(*roles[:50])) == {}
    unread = many.unread(spec(*roles))
    assert len(unread) == 100
    many.learn(facts.read_all(unread))
    assert many.unread(spec(*roles)) == {}


ASKING: dict[str, Any] = {"metadata": {"labels": {names.BARRIER_LABEL: "enabled"}}}


@pytest.mark.parametrize(
    ("pods", "accounts"),
    [
        ([], ()),
        ([{}], ()),
        ([{"spec": {"serviceAccountName": "a"}}], ()),
        ([ASKING], ("default",)),
        ([ASKING | {"spec": None}], ("default",)),
        ([ASKING | {"spec": {"serviceAccountName": ""}}], ("default",)),
        ([ASKING | {"spec": {"serviceAccountName": None}}], ("default",)),
        ([ASKING | {"spec": {"serviceAccountName": "b"}}, ASKING | {"spec": {"serviceAccountName": "a"}}], ("a", "b")),
        ([ASKING | {"spec": {"serviceAccountName": "b"}}, {"spec": {"serviceAccountName": "a"}}], ("b",)),
        ([ASKING | {"spec": {"serviceAccountName": 7}}, ASKING], ("default",)),
        ([{"metadata": {"labels": {names.BARRIER_LABEL: "disabled"}}}, {"metadata": {"labels": None}}], ()),
        ([{"spec": {"initContainers": [{"name": "frameworkbarrier"}]}}], ("default",)),
        ([{"spec": {"containers": [{"name": "wait", "image": "here/frameworkbarrier:1"}]}}], ("default",)),
        ([{"spec": {"initContainers": [{"name": "wait", "command": ["frameworkbarrier"]}]}}], ("default",)),
        (["x", {"spec": []}], ()),
    ],
    ids=str,
)
def test_the_accounts_that_read_a_roster_are_those_of_the_templates_with_a_barrier(
    pods: list[Any], accounts: tuple[str, ...]
) -> None:
    roles = [role(f"r{number}", 1, task=TaskSpec(pod=Raw(json.dumps(pod)))) for number, pod in enumerate(pods)]
    assert facts_of(spec(*roles)).service_accounts == accounts


def test_no_roles_have_no_accounts() -> None:
    assert facts_of(FrameworkSpec(task_roles=None)) == SpecFacts((), waits_for_arrival=False)


@pytest.mark.parametrize(
    ("resources", "gpus"),
    [
        ([{"limits": {"nvidia.com/gpu": "8", "cpu": "4"}}], {"worker": 8}),
        ([{"limits": {"amd.com/gpu": 2}}, {"limits": {"nvidia.com/gpu": "1"}}], {"worker": 3}),
        ([{"limits": {"cpu": "4", "nvidia.com/gpu.shared": "1"}}, {"requests": {"nvidia.com/gpu": "1"}}, None], {}),
        ([{"limits": {"nvidia.com/gpu": "1k"}}, {"limits": {"nvidia.com/gpu": -1}}, {"limits": 5}, "8"], {}),
    ],
    ids=["one container", "two", "none", "not counts"],
)
def test_the_gpus_of_a_role_are_those_that_the_containers_of_its_pods_ask_for(
    resources: list[Any], gpus: dict[str, int]
) -> None:
    containers = [{"name": f"c{number}", "resources": one} for number, one in enumerate(resources)]
    pod = {"spec": {"containers": containers, "initContainers": [{"resources": {"limits": {"nvidia.com/gpu": 9}}}]}}
    worker = role("worker", 1, task=TaskSpec(pod=Raw(json.dumps(pod).encode())))
    assert facts_of(spec(worker, role("other", 1))).gpus == gpus


BARRIER = {"name": "frameworkbarrier"}
ANNOTATION = "barrier.frameworkcontroller.microsoft.com/wait-for"


@pytest.mark.parametrize(
    ("pod", "asked"),
    [
        ({}, False),
        ({"metadata": {"annotations": {ANNOTATION: "arrived"}}}, True),
        ({"metadata": {"annotations": {ANNOTATION: "ip"}}}, False),
        ({"metadata": {"annotations": None}, "spec": {"initContainers": None}}, False),
        ({"spec": {"initContainers": [BARRIER]}}, False),
        ({"spec": {"initContainers": [BARRIER | {"env": [{"name": "FB_WAIT_FOR", "value": "arrived"}]}]}}, True),
        ({"spec": {"initContainers": [BARRIER | {"env": [{"name": "FB_WAIT_FOR", "value": "ip"}]}]}}, False),
        ({"spec": {"initContainers": [BARRIER | {"env": [{"name": "FB_PRESET", "value": "arrived"}]}]}}, False),
        ({"spec": {"initContainers": [BARRIER | {"args": ["--wait-for=arrived"]}]}}, True),
        ({"spec": {"initContainers": [BARRIER | {"args": ["--wait-for", "arrived"]}]}}, True),
        ({"spec": {"initContainers": [BARRIER | {"command": ["frameworkbarrier", "--wait-for=arrived"]}]}}, True),
        ({"spec": {"initContainers": [BARRIER | {"args": ["arrived", "--wait-for"], "env": None}]}}, False),
        ({"spec": {"initContainers": [{"name": "other", "args": ["--wait-for=arrived"]}]}}, False),
        ({"spec": {"containers": [BARRIER | {"args": ["--wait-for=arrived"]}]}}, False),
    ],
    ids=str,
)
def test_a_gang_waits_for_arrival_if_a_template_says_so(pod: dict[str, Any], *, asked: bool) -> None:
    roles = [role("plain", 1, task=TaskSpec(pod=Raw(b"{}"))), role("r", 1, task=TaskSpec(pod=Raw(json.dumps(pod))))]
    assert facts_of(spec(*roles)).waits_for_arrival is asked
