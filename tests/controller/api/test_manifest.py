"""The definition of Frameworks as it is stored."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from frameworkcontroller.api import crd, explained
from frameworkcontroller.api.spec import CompletionPolicy, FrameworkSpec, RetryPolicy, TaskRoleSpec, TaskSpec
from frameworkcontroller.api.states import State
from frameworkcontroller.api.status import FrameworkStatus

if TYPE_CHECKING:
    from collections.abc import Iterator

    from frameworkcontroller.api.meta import Wire

STORED = Path(__file__).parents[3] / "charts" / "frameworkcontroller" / "files" / "crd.yaml"
FRAMEWORKS = Path(__file__).parent / "frameworks"


def version() -> dict[str, Any]:
    only: dict[str, Any] = crd.crd()["spec"]["versions"][0]
    return only


def schema(*path: str) -> dict[str, Any]:
    """The schema at this path of properties; "[]" is a list's items."""
    found: dict[str, Any] = version()["schema"]["openAPIV3Schema"]
    for part in path:
        found = found["items"] if part == "[]" else found["properties"][part]
    return found


def test_the_stored_manifest_is_what_the_code_says_now() -> None:
    assert STORED.read_text() == crd.manifest(), "run `make manifests`"


def test_the_stored_manifest_is_yaml_of_the_definition() -> None:
    assert yaml.safe_load(STORED.read_text()) == crd.crd()


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("spec",), FrameworkSpec()),
        (("spec", "retryPolicy"), RetryPolicy()),
        (("spec", "taskRoles", "[]"), TaskRoleSpec("x")),
        (("spec", "taskRoles", "[]", "frameworkAttemptCompletionPolicy"), CompletionPolicy()),
        (("spec", "taskRoles", "[]", "task"), TaskSpec()),
        (("spec", "taskRoles", "[]", "task", "retryPolicy"), RetryPolicy()),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_schema_and_the_code_know_the_same_fields(path: tuple[str, ...], value: Wire) -> None:
    assert set(schema(*path)["properties"]) == set(value.__struct_encode_fields__)


def test_the_status_of_the_schema_has_the_fields_that_are_written() -> None:
    assert set(schema("status")["properties"]) == set(FrameworkStatus.__struct_encode_fields__)


@pytest.mark.parametrize(
    ("path", "default"),
    [
        (("spec", "executionType"), FrameworkSpec().execution_type),
        (("spec", "retryPolicy", "fancyRetryPolicy"), RetryPolicy().fancy_retry_policy),
        (("spec", "retryPolicy", "maxRetryCount"), RetryPolicy().max_retry_count),
        (("spec", "taskRoles", "[]", "taskNumber"), TaskRoleSpec("x").task_number),
        (
            ("spec", "taskRoles", "[]", "frameworkAttemptCompletionPolicy", "minFailedTaskCount"),
            CompletionPolicy().min_failed_task_count,
        ),
        (
            ("spec", "taskRoles", "[]", "frameworkAttemptCompletionPolicy", "minSucceededTaskCount"),
            CompletionPolicy().min_succeeded_task_count,
        ),
    ],
    ids=lambda value: ".".join(value) if isinstance(value, tuple) else "",
)
def test_a_default_is_the_same_in_the_schema_and_in_the_code(path: tuple[str, ...], default: object) -> None:
    assert schema(*path)["default"] == default


def test_each_field_has_a_text_and_each_text_a_field() -> None:
    known = {"": schema()} | {path: found for part in ("spec", "status") for path, found in fields(part, schema(part))}
    assert {path: found.get("description") for path, found in known.items()} == explained.TEXTS
    assert set(explained.TEXTS) >= explained.ADDED


def fields(path: str, found: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    if not path.endswith("[]"):
        yield path, found
    for name, inner in found.get("properties", {}).items():
        yield from fields(f"{path}.{name}", inner)
    if "items" in found:
        yield from fields(f"{path}[]", found["items"])


def test_every_state_is_known_to_the_schema() -> None:
    assert set(schema("status", "state")["enum"]) == {str(state) for state in State}


def test_every_example_says_what_is_expected_of_it() -> None:
    """Each rule has examples that it accepts and that it refuses; tests/apiserver asks the API server."""
    invalid = sorted(FRAMEWORKS.glob("invalid/*.yaml"))
    assert len(invalid) >= 30
    assert all(path.read_text().startswith("# ") for path in invalid)
    assert len(list(FRAMEWORKS.glob("valid/*.yaml"))) >= 20
    expected = {path.read_text().partition("\n")[0] for path in invalid}
    for rule in rules(version()["schema"]["openAPIV3Schema"]):
        # The one is of two versions of an object, the other of a thousand lines: tests/apiserver/test_crd.py.
        if rule["message"] not in {crd.EXECUTION_TYPE_MESSAGE, crd.ROLES_MESSAGE}:
            assert any(rule["message"].split(":")[0] in line for line in expected), rule


def rules(found: dict[str, Any]) -> Iterator[dict[str, str]]:
    yield from found.get("x-kubernetes-validations", ())
    for inner in found.get("properties", {}).values():
        yield from rules(inner)
    if "items" in found:
        yield from rules(found["items"])
