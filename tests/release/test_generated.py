"""What is made from code or from the chart is current, and says what the programs say."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from frameworkbarrier.values import DNS_LABEL
from frameworkcontroller.engine.config.settings import Settings
from frameworkinjector.review.config import DEFAULT_LIMITS, DEFAULT_REQUESTS, EnvFiles, PullPolicy
from frameworkrelease.__main__ import GENERATED
from frameworkrelease.chart import CHART
from frameworkrelease.generate import fields, permissions, plain, schema
from tests.release.manifests import documented

SCHEMA: dict[str, Any] = json.loads(schema.FILE.read_text())
VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())


@pytest.mark.parametrize(
    "file",
    [
        pytest.param(file, id=file.name, marks=[pytest.mark.chart] if file in {plain.FILE, permissions.PAGE} else [])
        for file in GENERATED
    ],
)
def test_what_is_made_from_code_is_current(file: Path) -> None:
    assert file.read_text() == GENERATED[file](file.read_text()), "run `make manifests`"


def resolved(found: dict[str, Any]) -> dict[str, Any]:
    """A schema, or the definition that it refers to."""
    return SCHEMA["$defs"][found["$ref"].removeprefix("#/$defs/")] if "$ref" in found else found


def test_the_schema_by_hand_has_the_words_of_the_programs() -> None:
    def at(path: str) -> dict[str, Any]:
        found = SCHEMA
        for key in path.split("."):
            found = resolved(found["properties"][key])
        return found

    assert at("image.pullPolicy")["enum"] == [*PullPolicy]
    assert at("barrier.image.pullPolicy")["enum"] == ["", *PullPolicy]
    assert at("injector.envFiles")["enum"] == ["", *EnvFiles]
    assert at("barrier.presets")["propertyNames"]["pattern"] == f"^({DNS_LABEL})$"


def test_every_definition_of_the_schema_is_used() -> None:
    text = schema.FILE.read_text()
    assert [name for name in SCHEMA["$defs"] if f'"$ref": "#/$defs/{name}"' not in text] == []


def test_the_schema_by_hand_knows_the_keys_of_every_object() -> None:
    """An unknown key is an error that names it, but in what Kubernetes defines."""

    def open_ones(found: Any, path: str = "") -> Iterator[str]:
        if isinstance(found, dict):
            if "properties" in found and found.get("additionalProperties") is not False:
                yield path
            for key, inner in found.items():
                yield from open_ones(inner, f"{path}.{key}")

    assert list(open_ones(SCHEMA)) == []


def test_additions_are_fields() -> None:
    assert set(fields.ADDED) <= {one.path for part in ("spec", "status") for one in fields.fields(part)}


def test_keys_within_a_documented_value_are_no_values_and_one_without_a_comment_is_named() -> None:
    assert documented("# One\n# two.\na:\n  b: 1\nc:\n  # It is.\n  d: []\n# Last.\ne: {}\n") == {"a", "c.d", "e"}
    with pytest.raises(AssertionError, match=r"values\.yaml: a\.c has no comment above it"):
        documented("a:\n  # It is.\n  b: 1\n  c: 2\n")


def known(found: dict[str, Any]) -> Any:
    """The keys that a schema knows, and those of the objects that are their values."""
    found = resolved(found)
    return {key: known(one) for key, one in found["properties"].items()} if "properties" in found else None


def test_the_schema_and_the_values_know_the_same_keys() -> None:
    leaves = documented()

    def pruned(group: Any, prefix: str = "") -> Any:
        return {
            key: None if f"{prefix}{key}" in leaves or not isinstance(inner, dict) else pruned(inner, f"{prefix}{key}.")
            for key, inner in group.items()
        }

    assert pruned(known(SCHEMA)) == {"global": None} | pruned(VALUES)


def test_every_setting_of_the_controller_is_a_value_but_those_that_follow_from_others() -> None:
    definitions = SCHEMA["$defs"]
    for name, settings in (("Settings", Settings()), ("LeaderElectionSettings", Settings().leader_election)):
        of_the_code = set(json.loads(msgspec.json.encode(settings)))
        assert of_the_code - set(definitions[name]["properties"]) == set(schema.BY_THE_CHART[name])


def test_the_resources_of_the_barrier_are_those_of_the_injector() -> None:
    for kind, default in {"requests": DEFAULT_REQUESTS, "limits": DEFAULT_LIMITS}.items():
        amounts = VALUES["barrier"][kind].items()
        assert ",".join(f"{resource}={amount}" for resource, amount in amounts) == default


def test_a_pattern_of_the_schema_is_one_that_helm_can_read() -> None:
    """Go has no `\\Z` and no lookahead."""
    text = schema.FILE.read_text()
    assert "\\Z" not in text
    assert "(?=" not in text
