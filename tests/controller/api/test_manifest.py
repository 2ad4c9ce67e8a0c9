"""The definition of Frameworks against the structs, names and limits of the programs."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import inspect

from frameworkcontroller.api import definition, names
from frameworkcontroller.api.spec import (
    COMPLETE,
    MAX_DEPENDENCIES,
    READY,
    RETAIN_ALWAYS,
    RETAIN_NEVER,
    RETAIN_ON_FAILURE,
    CompletionPolicy,
    FrameworkSpec,
    TaskRoleSpec,
    bounded,
)
from frameworkcontroller.api.states import State
from frameworkcontroller.api.status import FrameworkStatus

FRAMEWORKS = Path(__file__).parent / "frameworks"
Json = dict[str, Any]
# What the programs keep as the bytes that came, and what the definition leaves open.
RAW = {"spec.description": ("string", True), "spec.taskRoles[].task.pod": ("object", False)}
OPEN = "status.attemptStatus"
TYPES: dict[type[inspect.Type], str] = {
    inspect.BoolType: "boolean",
    inspect.DateTimeType: "string",
    inspect.EnumType: "string",
    inspect.IntType: "integer",
    inspect.FloatType: "number",
    inspect.StrType: "string",
    inspect.StructType: "object",
    inspect.VarTupleType: "array",
}


def fields(path: str, found: Json) -> Iterator[tuple[str, Json]]:
    """The schema of each field by its path, this one included; "[]" stands for a list's items."""
    yield path, found
    for name, inner in found.get("properties", {}).items():
        yield from fields(f"{path}.{name}" if path else name, inner)
    if "items" in found:
        yield from fields(f"{path}[]", found["items"])


DEFINED = dict(fields("", definition.schema()))


def fields_of_code(path: str, kind: inspect.Type) -> Iterator[tuple[str, tuple[str, bool, Any]]]:
    """By its path, the type of each field within a type, whether it may be null, and its default."""
    match kind:
        case inspect.StructType(fields=inside) if path != OPEN:
            found = [(f"{path}.{one.encode_name}", one.type, one.default) for one in inside]
        case inspect.VarTupleType(item_type=item):
            found = [(f"{path}[]", item, None)]
        case _:
            found = []
    for name, inner, default in found:
        types = inner.types if isinstance(inner, inspect.UnionType) else (inner,)
        (beside,) = [one for one in types if not isinstance(one, inspect.NoneType)]
        yield name, (*(RAW.get(name) or (TYPES[type(beside)], len(types) > 1)), default)
        yield from fields_of_code(name, beside)


@pytest.mark.parametrize(("part", "struct"), [("spec", FrameworkSpec), ("status", FrameworkStatus)])
def test_the_definition_and_the_code_know_the_same_fields_of_the_same_types(part: str, struct: type) -> None:
    known = {path: (kind, null) for path, (kind, null, _) in fields_of_code(part, inspect.type_info(struct))}
    defined = {path: found for path, found in DEFINED.items() if path.startswith(f"{part}.")}
    assert {path: (found["type"], found.get("nullable", False)) for path, found in defined.items()} == known


def test_a_field_that_is_neither_required_nor_nullable_has_the_default_of_the_code() -> None:
    optional = {
        f"{path}.{name}": inner.get("default")
        for path, found in DEFINED.items()
        if path.startswith("spec")
        for name, inner in found.get("properties", {}).items()
        if name not in found.get("required", ()) and not inner.get("nullable")
    }
    # They are additions: objects that do not have them stay as they are.
    assert (optional.pop("spec.retainPods"), optional.pop("spec.suspend")) == (None, None)
    known = dict(fields_of_code("spec", inspect.type_info(FrameworkSpec)))
    # That of an object is made of those of its fields.
    assert optional == {path: {} if known[path][0] == "object" else known[path][2] for path in optional}


@pytest.mark.parametrize(
    ("path", "keyword", "value"),
    [
        ("spec.taskRoles[].name", "pattern", names.NAME_PATTERN),
        ("spec.taskRoles[].dependsOn", "maxItems", MAX_DEPENDENCIES),
        ("spec.taskRoles[].dependsOn[].name", "pattern", names.NAME_PATTERN),
        ("spec.taskRoles[].dependsOn[].status", "enum", [READY, COMPLETE]),
        ("spec.retainPods", "enum", [RETAIN_NEVER, RETAIN_ON_FAILURE, RETAIN_ALWAYS]),
        ("status.state", "enum", [str(state) for state in State]),
    ],
)
def test_the_definition_allows_what_the_code_does(path: str, keyword: str, value: object) -> None:
    assert DEFINED[path][keyword] == value


@pytest.mark.parametrize(("keyword", "number"), [("minimum", -(2**62)), ("maximum", 2**62)])
def test_numbers_of_another_definition_are_read_within_the_limits_of_this_one(keyword: str, number: int) -> None:
    policy = CompletionPolicy(min_failed_task_percent=number, min_succeeded_task_percent=number)
    role = TaskRoleSpec("x", task_number=number, framework_attempt_completion_policy=policy)
    spec = FrameworkSpec(task_roles=(role,), active_deadline_seconds=number, ttl_seconds_after_finished=number)
    spec = bounded(spec)
    (role,) = spec.task_roles or ()
    policy = role.framework_attempt_completion_policy
    read = {
        "spec.activeDeadlineSeconds": spec.active_deadline_seconds,
        "spec.ttlSecondsAfterFinished": spec.ttl_seconds_after_finished,
        "spec.taskRoles[].taskNumber": role.task_number,
        "spec.taskRoles[].frameworkAttemptCompletionPolicy.minFailedTaskPercent": policy.min_failed_task_percent,
        "spec.taskRoles[].frameworkAttemptCompletionPolicy.minSucceededTaskPercent": policy.min_succeeded_task_percent,
    }
    assert read == {path: DEFINED[path][keyword] for path in read}


def test_each_number_of_a_spec_that_has_no_rules_has_limits() -> None:
    """Servers before 1.33 do not check `format`."""
    numbers = {path: found for path, found in DEFINED.items() if found["type"] == "integer" and path.startswith("spec")}
    for path, found in numbers.items():
        assert {"minimum", "maximum"} <= set(found) or path.endswith(".podGracefulDeletionTimeoutSec"), path


def test_the_definition_has_the_names_of_the_code() -> None:
    whole = definition.crd()
    assert whole["metadata"]["name"] == names.CRD_NAME
    assert whole["spec"]["group"] == names.GROUP
    assert (whole["spec"]["names"]["plural"], whole["spec"]["names"]["kind"]) == (names.PLURAL, names.KIND)
    assert [one["name"] for one in whole["spec"]["versions"]] == [names.VERSION]


def test_each_field_has_a_description() -> None:
    server = {"apiVersion", "kind", "metadata"}
    assert all(found.get("description") for path, found in DEFINED.items() if path not in server and path[-2:] != "[]")


def test_every_example_says_what_is_expected_of_it() -> None:
    """Each rule has examples that it accepts and that it refuses; tests/apiserver asks the API server."""
    invalid = sorted(FRAMEWORKS.glob("invalid/*.yaml"))
    assert len(invalid) >= 30
    assert all(path.read_text().startswith("# ") for path in invalid)
    assert len(list(FRAMEWORKS.glob("valid/*.yaml"))) >= 20
    expected = {path.read_text().partition("\n")[0] for path in invalid}
    # The one is of two versions of an object, the other of a thousand lines: tests/apiserver/controller/test_crd.py.
    elsewhere = ("executionType may change only", "taskRoles must have at most")
    for rule in [rule for found in DEFINED.values() for rule in found.get("x-kubernetes-validations", ())]:
        if not rule["message"].startswith(elsewhere):
            assert any(rule["message"].split(":")[0] in line for line in expected), rule
