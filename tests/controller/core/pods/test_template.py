"""From a role's Pod template to the Pods of its Tasks."""

import copy
import dataclasses
import json
import tracemalloc
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from frameworkcontroller import __version__
from frameworkcontroller.api import names
from frameworkcontroller.api.spec import Dependency, FrameworkSpec, TaskSpec
from frameworkcontroller.core.pods import facts
from frameworkcontroller.core.pods.facts import RoleFacts, SpecFacts, facts_of
from frameworkcontroller.core.pods.template import MAX_POD_BYTES, PodTemplate, RoleAttempt, TemplateError
from tests.controller.core.values import known, role, spec

ATTEMPT = RoleAttempt("a-namespace", "fw", "framework-uid", 3, "config-map-uid", "worker", "role-uid")
MINIMAL = {"spec": {"containers": [{"name": "main", "image": "x"}]}}


def encoded(template: Any) -> bytes:
    return template if isinstance(template, bytes) else json.dumps(template, separators=(",", ":")).encode()


def spec_of(*templates: Any) -> FrameworkSpec:
    """Roles r0, r1 and so on of these templates."""
    pods = (TaskSpec(pod=Raw(encoded(one))) for one in templates)
    return spec(*(role(f"r{place}", 1, task=pod) for place, pod in enumerate(pods)))


def rendered(template: Any, index: int = 7, task_uid: str = "task-uid", attempt: int = 2) -> dict[str, Any]:
    pod: dict[str, Any] = json.loads(PodTemplate(encoded(template), ATTEMPT).render(index, task_uid, attempt))
    return pod


# --- placeholders ----------------------------------------------------------------------------------------------------

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
    "{{FC_{{FC_TASK_INDEX}}}}": "{{FC_7}}",
    '"{{FC_TASK_INDEX}}"\n\\ é 😀': '"7"\n\\ é 😀',
}
NO_PLACEHOLDERS = (
    *("{{FC_TASK_INDEX}", "{{ FC_TASK_INDEX }}", "{{fc_task_index}}", "{{OTHER}}", "{{}}", "{{FC_POD_UID}}"),
    *("{{FC_TASK_UID}}", "{{FC_TASK_ATTEMPT_ID}}", "{{FC_FRAMEWORK_UID}}", "{{FC_CONFIGMAP_UID}}"),
    # The marks of what differs between Tasks have the Framework's UID, which no user knows when writing.
    "{{framework-uid2:FC_TASK_UID}}",
)
PLACEHOLDERS |= {text: text for text in NO_PLACEHOLDERS}


@pytest.mark.parametrize(("text", "expected"), PLACEHOLDERS.items(), ids=PLACEHOLDERS)
def test_a_placeholder_is_replaced_wherever_a_string_is(text: str, expected: str) -> None:
    assert rendered({"new": {text: ["first", [{"deep": text}]]}})["new"] == {expected: ["first", [{"deep": expected}]]}


# --- all rules, against a straightforward implementation --------------------------------------------------------------

OWNER: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "name": "fw-attempt", "uid": "config-map-uid"}
OWNER |= {"controller": True, "blockOwnerDeletion": True}
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
LABELS = ("FC_FRAMEWORK_NAME", "FC_TASKROLE_NAME", "FC_TASK_INDEX")
OF_THE_POD = {"name": "FC_POD_UID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}


def straightforward(template: Any, index: int, task_uid: str, task_attempt: int) -> Any:
    """Section 4 of the Framework API read aloud: copy, replace, set."""
    values = ANNOTATIONS | {"FC_TASK_INDEX": str(index), "FC_POD_NAME": f"fw-worker-{index}"}
    values |= {"FC_TASK_UID": task_uid, "FC_TASK_ATTEMPT_ID": str(task_attempt)}
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
    metadata["labels"].pop(names.RETAINED_LABEL, None)
    spec = pod["spec"] = dict(pod.get("spec") or {})
    instance = {"name": "FC_TASK_ATTEMPT_INSTANCE_UID", "value": f"{task_attempt}_$(FC_POD_UID)"}
    environment = [*({"name": name, "value": value} for name, value in values.items()), OF_THE_POD, instance]
    for one in [*(spec.get("containers") or []), *(spec.get("initContainers") or [])]:
        one["env"] = environment + (one.get("env") or [])
        one["terminationMessagePolicy"] = one.get("terminationMessagePolicy") or "FallbackToLogsOnError"
    return pod


NUMBERS: dict[str, Any] = {"big": 2**63, "small": -(2**63), "exact": 0.1}
UNKNOWN = NUMBERS | {"no": None, "yes": True, "text": "\x7f\u2028", "list": [[]]}
VARIABLES = [{"name": "MINE", "value": "$(FC_TASK_INDEX)"}, {"name": "FC_TASK_INDEX", "value": "99"}]
FIRST = {"name": "first", "env": VARIABLES}
MINE = {"mine": "kept", "FC_TASK_INDEX": "a lie"}
EXAMPLES: dict[str, dict[str, Any]] = {
    "all that a user may set": {
        "apiVersion": "v7",
        "kind": "Deployment",
        "metadata": {
            "name": "mine",
            "namespace": "theirs",
            "generateName": "some-",
            "annotations": MINE,
            "labels": MINE | {names.RETAINED_LABEL: "true"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}],
            "finalizers": ["kept"],
        },
        "spec": {
            "restartPolicy": "Never",
            "initContainers": [FIRST, {"name": "second"}],
            "containers": [FIRST, {"name": "second", "terminationMessagePolicy": "File"}],
        },
    },
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
def test_a_pod_is_its_template_with_all_that_makes_it_the_pod_of_its_task(template: dict[str, Any]) -> None:
    assert rendered(template) == straightforward(template, 7, "task-uid", 2)


def test_pods_of_one_template_differ_only_by_their_task() -> None:
    template = PodTemplate(encoded(MINIMAL), ATTEMPT)
    for index, task_uid, attempt in ((0, "a", 0), (10_000, "b", 5), (0, "a", 0)):
        pod = json.loads(template.render(index, task_uid, attempt))
        assert pod == straightforward(MINIMAL, index, task_uid, attempt)


def optional(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


def few(one: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(one, max_size=2)


parts = [*PLACEHOLDERS, "", "a", "}}", "{{", "FC_POD_NAME", "$(X)", "é", '"', "\\"]
strings = st.lists(st.sampled_from(parts)).map("".join)
numbers = st.integers(-(2**53), 2**53) | st.floats(-1e9, 1e9).map(lambda x: round(x, 3))
anything = st.recursive(
    st.none() | st.booleans() | numbers | strings,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(strings, inner, max_size=3),
    max_leaves=6,
)
maps = st.none() | st.dictionaries(strings, strings, max_size=3)
variables = st.none() | few(st.fixed_dictionaries({"name": strings, "value": strings}))
policies = st.sampled_from([None, "", "File"])
container = optional(name=strings, args=few(strings), env=variables, terminationMessagePolicy=policies, new=anything)
containers = st.none() | few(container)
owners = st.none() | few(st.dictionaries(strings, strings, max_size=2))
metadata = optional(
    name=strings, generateName=strings, annotations=maps, labels=maps, ownerReferences=owners, new=anything
)
specs = optional(containers=containers, initContainers=containers, new=anything)
templates = optional(kind=strings, new=anything, metadata=st.none() | metadata, spec=st.none() | specs)


@settings(max_examples=300)
@given(templates, st.integers(0, 9999), st.uuids().map(str), st.integers(0, 99))
def test_every_template_becomes_what_a_straightforward_reading_of_the_rules_makes(
    template: dict[str, Any], index: int, task_uid: str, task_attempt: int
) -> None:
    assert rendered(template, index, task_uid, task_attempt) == straightforward(template, index, task_uid, task_attempt)


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
        facts_of(spec_of(deep))
    assert answers == {"pod template is nested too deeply"}


MANY: dict[str, Any] = {
    "containers": {"spec": {"containers": [{}] * 257}},
    "of all kinds": {"spec": {kind: [{}] * 100 for kind in ("initContainers", "containers", "ephemeralContainers")}},
    "as many as fit": {"spec": {"initContainers": [{}] * 450_000}},
    "of a field that is named by a placeholder": {"spec": {"{{FC_TASKROLE_NAME}}": [{}] * 257}},
}


@pytest.mark.parametrize("template", MANY.values(), ids=MANY)
def test_a_pod_may_have_256_containers_of_all_kinds(template: dict[str, Any]) -> None:
    reason = r"^pod spec has [0-9]+ containers, and may have 256 \(maxContainersOfPod\)"
    with pytest.raises(TemplateError, match=reason):
        PodTemplate(encoded(template), dataclasses.replace(ATTEMPT, role="containers"))
    found = facts_of(spec_of({}, template))
    assert found.problems == {}
    # A placeholder is replaced only when the Pod is made.
    assert found.is_hopeless is ("{{" not in str(template))


def test_256_containers_make_a_pod() -> None:
    text = encoded({"spec": {"containers": [{}] * 200, "initContainers": [{}] * 56}})
    assert PodTemplate(text, ATTEMPT).render(0, "uid", 0).count(b'"FC_POD_UID"') == 256


def test_a_framework_may_have_10_000_containers() -> None:
    many: list[Any] = [{"spec": {"containers": [{}] * 250}}] * 40
    found = facts_of(spec_of(*many))
    assert (found.problems, found.is_hopeless) == ({}, False)
    found = facts_of(spec_of(*many, {"spec": {"containers": [{}]}}, {"spec": {}}))
    assert (list(found.problems), found.is_hopeless) == (["r40", "r41"], True)
    text = "up to r40 have 10001 containers, and those of a Framework may have 10000 (maxContainersOfFramework)"
    assert text in found.problems["r40"]


def test_roles_that_can_never_begin_and_gangs_that_cannot_restart_as_asked_are_hopeless() -> None:
    waits = role("a", 1, depends_on=(Dependency(name="a", status="Complete"),))
    assert facts_of(spec(waits)).is_hopeless
    annotations = {names.RESTART_ANNOTATION: "in-place", names.RESTART_LIMIT_ANNOTATION: "x"}
    barrier = [{"name": names.BARRIER_CONTAINER}]
    for notes, hopeless in ((annotations, True), ({}, False)):
        pod = {"metadata": {"annotations": notes}, "spec": {"initContainers": barrier}}
        assert facts_of(spec_of(pod)).is_hopeless is hopeless


def test_templates_are_read_again_only_if_their_bytes_have_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    read = Mock(return_value=RoleFacts())
    monkeypatch.setattr(facts, "read", read)
    templates = facts.Templates()
    large = b'{"x":"' + b"y" * facts.LARGE_BYTES + b'"}'
    for _ in range(2):
        templates.facts(spec_of({"spec": {}}, {}))
    assert [bytes(call.args[0]) for call in read.call_args_list] == [b'{"spec":{}}', b"{}"]
    (key,) = templates.unread(spec_of(large, {}))
    templates.learn({key: RoleFacts()})
    assert not templates.unread(spec_of(large, {}))
    templates.facts(spec_of(large, {}))
    assert read.call_count == 2, "it was read elsewhere"


def test_of_states_that_were_edited_before_they_were_followed_few_templates_are_kept() -> None:
    """25 edits a second of 20 Frameworks made a controller 5.5 MB larger each second."""
    templates = facts.Templates()
    templates.facts(spec_of({"spec": {}}))
    size = "y" * facts.LARGE_BYTES
    states = [spec_of({"x": size + str(edit)}, {"x": size + str(edit + 1)}) for edit in range(10)]
    for state in states:
        unread = templates.unread(state)
        templates.unread(states[-1])
        templates.learn(facts.read_all(unread))
    assert len(templates._read) == 3
    templates.learn(facts.read_all(templates.unread(states[-1])))
    assert not templates.unread(states[-1]), "what it shares with the one before is kept"


def test_texts_of_any_characters_take_a_byte_for_each_that_is_kept() -> None:
    """1,000 roles with an emoji in each took 4 KB a role."""
    long = "\N{GRINNING FACE}" + "x" * 1000
    meta = {"annotations": {names.HANG_ANNOTATION: long, names.EXIT_ANNOTATION: "together"}}
    pod = {"serviceAccountName": long, "containers": [{"name": names.BARRIER_CONTAINER}]}
    found = facts.read(encoded({"metadata": meta, "spec": pod}))
    assert found.annotations[names.EXIT_ANNOTATION] == "together"
    for text in (known(found.account), found.annotations[names.HANG_ANNOTATION]):
        assert (text.isascii(), len(text)) == (True, facts.MAX_TEXT)


LARGE = {
    "placeholders": MINIMAL | {"metadata": {"annotations": {"x": "{{FC_POD_NAME}}" * 90_000}}},
    "data": MINIMAL | {"metadata": {"annotations": {"x": "x" * 3 * 1024 * 1024}}},
}


@pytest.mark.parametrize("template", LARGE.values(), ids=LARGE)
def test_a_pod_that_is_too_large_is_refused_before_it_is_built(template: dict[str, Any]) -> None:
    text = encoded(template)
    attempt = dataclasses.replace(ATTEMPT, framework="f" * 63, role="containers")
    tracemalloc.start()
    try:
        with pytest.raises(TemplateError, match=r"^each Pod of TaskRole containers would have at least [0-9]{7,9} b"):
            PodTemplate(text, attempt)
        facts_of(spec_of(text))
        assert tracemalloc.get_traced_memory()[1] < 10 * len(text)
    finally:
        tracemalloc.stop()


def test_the_largest_pod_that_may_be_asked_for_is_built() -> None:
    """Below the bound the API server decides."""
    text = encoded(MINIMAL | {"metadata": {"annotations": {"x": "x" * (MAX_POD_BYTES - 5000)}}})
    assert MAX_POD_BYTES - 5000 < len(PodTemplate(text, ATTEMPT).render(0, "uid", 0)) < MAX_POD_BYTES


# --- what is read of templates ---------------------------------------------------------------------------------------


def test_many_templates_that_are_large_together_are_read_beside_the_loop() -> None:
    pods = [{"x": "x" * 1000 + str(place)} for place in range(100)]
    few, many = facts.Templates(), facts.Templates()
    assert few.unread(spec_of(*pods[:50])) == {}
    unread = many.unread(spec_of(*pods))
    assert len(unread) == 100
    many.learn(facts.read_all(unread))
    assert many.unread(spec_of(*pods)) == {}


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
    assert facts_of(spec_of(*pods)).service_accounts == accounts


def test_no_roles_have_no_accounts() -> None:
    assert facts_of(FrameworkSpec(task_roles=None)) == SpecFacts((), waits_for_arrival=False)


GPUS = {
    "one container": (['{"limits": {"nvidia.com/gpu": 8, "cpu": "4"}}'], 8),
    "as a text": (['{"limits": {"nvidia.com/gpu": "8"}}'], 8),
    "two containers and kinds": (['{"limits": {"amd.com/gpu": 2}}', '{"limits": {"nvidia.com/gpu": "1"}}'], 3),
    "other resources": (['{"limits": {"cpu": "4", "nvidia.com/gpu.shared": "1"}}', "null"], 0),
    "requests alone": (['{"requests": {"nvidia.com/gpu": "1"}}'], 0),
    "no whole numbers": ([f'{{"limits": {{"x/gpu": {number}}}}}' for number in ("8.0", "1e308", "-1", "null")], 0),
    "no numbers": ([f'{{"limits": {{"x/gpu": "{number}"}}}}' for number in ("1Ki", "1k", "")], 0),
    "too many": (['{"limits": {"x/gpu": 9999999}}'], 0),
    "no resources": (['{"limits": 5}', '"nvidia.com/gpu"', "{}"], 0),
}


@pytest.mark.parametrize(("resources", "gpus"), GPUS.values(), ids=GPUS)
def test_the_gpus_of_a_role_are_whole_numbers_as_its_containers_ask_for_them(resources: list[str], gpus: int) -> None:
    """To print 93,000 numbers like 1e308 took 1.5 s of a turn."""
    containers = ",".join(f'{{"resources": {one}}}' for one in resources)
    first = '{"resources": {"limits": {"nvidia.com/gpu": 9, "memory": 1e308}}}'
    pod = f'{{"spec": {{"containers": [{containers}], "initContainers": [{first}]}}}}'
    assert facts_of(spec_of(pod.encode(), {})).gpus == ({"r0": gpus} if gpus else {})


def barrier(name: str = "frameworkbarrier", **more: Any) -> dict[str, Any]:
    return {"spec": {"initContainers": [{"name": name, **more}]}}


ANNOTATION = "barrier.frameworkcontroller.microsoft.com/wait-for"


@pytest.mark.parametrize(
    ("pod", "asked"),
    [
        ({}, False),
        ({"metadata": {"annotations": {ANNOTATION: "arrived"}}}, True),
        ({"metadata": {"annotations": {ANNOTATION: "ip"}}}, False),
        ({"metadata": {"annotations": None}, "spec": {"initContainers": None}}, False),
        (barrier(), False),
        (barrier(env=[{"name": "FB_WAIT_FOR", "value": "arrived"}]), True),
        (barrier(env=[{"name": "FB_WAIT_FOR", "value": "ip"}]), False),
        (barrier(env=[{"name": "FB_PRESET", "value": "arrived"}]), False),
        (barrier(args=["--wait-for=arrived"]), True),
        (barrier(args=["--wait-for", "arrived"]), True),
        (barrier(command=["frameworkbarrier", "--wait-for=arrived"]), True),
        (barrier(args=["arrived", "--wait-for"], env=None), False),
        (barrier("other", args=["--wait-for=arrived"]), False),
        ({"spec": {"containers": [{"name": "frameworkbarrier", "args": ["--wait-for=arrived"]}]}}, False),
    ],
    ids=str,
)
def test_a_gang_waits_for_arrival_if_a_template_says_so(pod: dict[str, Any], *, asked: bool) -> None:
    assert facts_of(spec_of({}, pod)).waits_for_arrival is asked
