"""Presets that an operator defines: as the barrier gets them, in one variable of JSON."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from frameworkbarrier import settings
from frameworkbarrier.errors import SettingsError
from frameworkbarrier.files import render
from frameworkbarrier.files.container import Container
from frameworkbarrier.presets import model as presets
from frameworkbarrier.presets.model import PresetError
from tests.barrier.gangs import environment, ip, released, roster

HUB: dict[str, Any] = {
    "port": 9000,
    "heads": ["hub"],
    "variables": {"HUB": "{{ head.name | host }}:{{ head.port }}", "NONE": "{{ '' }}"},
    "optional": ["NONE"],
    "files": {"peers.sh": "#!/bin/sh\n{% for task in tasks %}echo {{ task.ip }}\n{% endfor %}"},
}


def files(definition: Any, **environ: str) -> dict[str, tuple[bytes, int]]:
    text = definition if isinstance(definition, str) else json.dumps({"mine": definition})
    read = settings.parse(environment(FB_PRESET="mine", FB_PRESET_DEFINITIONS=text, **environ))
    opened = released(roster({"worker": 1, "hub": 1}))
    render.warm_up(read, Container())
    return {file.name: (file.data, file.mode) for file in render.render(opened, read, Container()).files}


def test_a_preset_of_the_operator_sets_variables_and_writes_files() -> None:
    made = files(HUB)
    assert f"HUB='{ip(2)}:9000'\n".encode() in made["env"][0]
    assert b"NONE" not in made["env"][0]
    assert made["peers.sh"] == (f"#!/bin/sh\necho {ip(1)}\necho {ip(2)}\n".encode(), 0o755)


def test_a_preset_of_the_operator_replaces_one_of_this_version() -> None:
    text = json.dumps({"jax": HUB})
    read = settings.parse(environment(FB_PRESET="jax", FB_PRESET_DEFINITIONS=text))
    assert [*presets.variables(read.presets, read.preset_definitions)] == ["HUB", "NONE"]


@pytest.mark.parametrize(
    ("definition", "says"),
    [
        ("{", "FB_PRESET_DEFINITIONS='{': must be definitions of presets, but it is not JSON"),
        ("[]", "but it is not an object of presets"),
        ({"variables": {"A": 1}}, "preset mine: variables.A: must be the text of a template"),
        ('{"theirs": {"variables": {"A": ""}}}', "FB_PRESET='mine': must be one or more of .*theirs"),
        ({"variables": {"A": "1"}, "ranks_by_topology": "yes"}, "mine: ranks_by_topology: must be true or false"),
        ({"variables": {"A": "{{ nobody }}"}}, "template A, line 1: 'nobody' is undefined"),
        ({"variables": {"A": "{{ '"}}, "template A, line 1"),
        ({"variables": {"A": "{{ ''.__class__.__mro__ }}"}}, "template A.* unsafe"),
        ({"variables": {"A": "{{ fail('no') }}"}}, "preset mine: no$"),
        ({"files": {"hosts": "x"}}, "preset mine: 'hosts' is the name of another file of the barrier"),
        ({"files": {"generation": "x"}}, "preset mine: 'generation' is the name"),
    ],
)
def test_a_wrong_definition_ends_the_barrier_with_a_reason(definition: Any, says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        files(definition)


def test_a_definition_is_the_same_after_its_way_through_the_variable() -> None:
    own = {name: presets.decode(name, presets.load(name).document) for name in presets.names()}
    assert presets.decode_all(presets.encode(own.values())) == own


def test_the_page_has_each_field_of_a_definition() -> None:
    page = (Path(__file__).parents[3] / "docs" / "presets.md").read_text()
    _, _, section = page.partition("## Presets of your own")
    tables = [f"`[{field}]`" for field in ("variables", "files", "short_variables")]
    fields = ("optional", "long", "port", "rank_roles", "ranks_by_topology", "heads", "gpu_slots", "place", "doc")
    assert [named for named in (*tables, *(f"`{field}`" for field in fields)) if named not in section] == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)
FIELDS = st.sampled_from([
    "variables", "files", "short_variables", "optional", "long", "port", "heads", "gpu_slots", "ranks_by_topology",
])  # fmt: skip


@given(st.dictionaries(FIELDS, JSON, max_size=4) | JSON)
@hypothesis_settings(max_examples=300, deadline=None)
def test_any_document_is_a_preset_or_refused(document: Any) -> None:
    try:
        found = presets.decode("mine", document)
    except PresetError:
        with pytest.raises(PresetError, match=r"\Apreset mine: "):
            presets.decode("mine", document)
        return
    assert found.variables or found.files
