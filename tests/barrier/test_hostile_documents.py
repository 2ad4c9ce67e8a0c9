"""Documents of any shape from an API server: a sentence and another request, never a traceback; no line too many.

Rosters, Frameworks and Pods in which somebody wrote something else; the valid ones open the gate and are written too.
"""

import json
import os
import re
from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from frameworkbarrier import settings
from frameworkbarrier.errors import BarrierError, SettingsError
from frameworkbarrier.files.container import Container
from frameworkbarrier.files.environment import EXPORT_FUNCTION
from frameworkbarrier.files.render import render
from frameworkbarrier.gate.gate import Fault, Gatekeeper, Observation, Released
from frameworkbarrier.settings import Settings
from frameworkbarrier.shape import ShapeError
from frameworkbarrier.source.api import Api
from frameworkbarrier.source.follow import Follower
from frameworkbarrier.source.views import FrameworkView, PodsView, RosterView, View
from tests.barrier.documents import BY_SELECTOR, DOCUMENTS, HOSTILE, TAMPERED, VALID, with_roster
from tests.barrier.gangs import environment, roster

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "500"))
VIEWS: dict[str, Callable[[Settings], View[Any]]] = {
    "roster": RosterView,
    "framework": FrameworkView,
    "pods": lambda read: PodsView(read, "lab"),
}


ENVIRON = {
    "roster": {"FC_FRAMEWORK_ATTEMPT_ID": "0"},
    "framework": {"FC_FRAMEWORK_ATTEMPT_ID": "3"},
    "pods": {"FB_WAIT_FOR": "arrived", **BY_SELECTOR},
}


def settings_for(source: str) -> Settings:
    return settings.parse(environment(FC_FRAMEWORK_UID="fw-uid", FB_PRESET="pytorch,jax,mpi", **ENVIRON[source]))


class EnoughError(Exception):
    """The follower has paused for the third time."""


def is_understood(source: str, document: dict[str, Any], *events: tuple[str, dict[str, Any]]) -> None:
    """What an API server answers becomes observations and sentences, with the last of which the barrier may end."""
    api, items = Mock(Api), list[Any]()
    api.get.return_value, api.watch.side_effect = document, lambda *_: iter(events)
    pauses = Mock(side_effect=[None, None, EnoughError])
    try:
        for item in Follower(api, VIEWS[source](settings_for(source)), poll_sec=1, sleep=pauses):
            items.append(item)
    except EnoughError:
        pass
    except BarrierError as end:
        items.append(Fault(str(end)))
    assert items
    assert all(item is None or isinstance(item, Observation | Fault) for item in items)
    assert not [item for item in items if isinstance(item, Fault) and "Error" in item.text]


@pytest.mark.parametrize("source", VIEWS)
@given(data=st.data(), kind=st.sampled_from(["", "", "ADDED", "MODIFIED", "DELETED", "BOOKMARK"]))
@hypothesis_settings(max_examples=800)
def test_any_document_that_is_read_or_watched_is_understood_or_a_sentence(
    source: str, data: st.DataObject, kind: str
) -> None:
    if kind:
        body = data.draw(DOCUMENTS["pod" if source == "pods" else source])
        is_understood(source, VALID[source], (kind, body))
    else:
        is_understood(source, data.draw(DOCUMENTS[source]))


@pytest.mark.parametrize(
    ("source", "document", "says"),
    [
        ("roster", {}, "metadata.namespace: is None, not 'lab'"),
        ("roster", VALID["roster"] | {"metadata": []}, "metadata: [] is not an object"),
        ("roster", VALID["roster"] | {"data": 5}, "data: 5 is not an object"),
        ("framework", VALID["framework"] | {"spec": 5}, "spec: 5 is not an object"),
        ("framework", VALID["framework"] | {"spec": {"taskRoles": [{"name": "ps"}]}}, "spec.taskRoles[ps].taskNumber"),
        ("framework", VALID["framework"] | {"status": {"attemptStatus": [1]}}, "status.attemptStatus: [1] is not"),
        ("pods", {}, "items: is not there"),
        ("pods", {"items": 5}, "items: 5 is not a list"),
        ("pods", {"items": [{"metadata": {"uid": 1}}]}, "metadata.uid: 1 is not a string"),
    ],
)
def test_a_wrong_shape_is_a_sentence_that_names_the_field(source: str, document: dict[str, Any], says: str) -> None:
    with pytest.raises(ShapeError, match=re.escape(says)):
        VIEWS[source](settings_for(source)).loaded(document)


OWN_HOSTS = "127.0.0.1\tlocalhost\n"
IP = r"[0-9A-Fa-f:.]{2,45}"
NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
VALUE = r"[A-Za-z0-9.,:/_\[\]-]*"
PORT = r"\$\{FB_[A-Z0-9_]+_PORT(?:-|:-[0-9]+)\}"
COMMENT = r"# To be sourced.*"
# A call of the function, or a line of its definition.
PRESET = rf"fb_export [A-Z][A-Za-z0-9_]* '?{VALUE}'?|" + "|".join(
    re.escape(line) for line in (*EXPORT_FUNCTION.split("\n"), "unset -f fb_export", "unset fb_value fb_is_set")
)
LINES = {
    "hosts": rf"127\.0\.0\.1\tlocalhost|# Tasks of the gang, by the barrier\.|{IP}\t{NAME} {NAME} {NAME}(?: me)?",
    "hostfile": rf"{IP} slots=[0-9]+",
    "hostfile.mpich": rf"(?:{IP}|\[{IP}\]):[0-9]+",
    "env": rf"[A-Z][A-Za-z0-9_]*='{VALUE}'",
    "injector.sh": rf"{COMMENT}|export [A-Z][A-Za-z0-9_]*=(?:'?{VALUE}'?|{PORT}|\"(?:{VALUE}{PORT})*\")|{PRESET}",
    "presets.sh": rf"{COMMENT}|{PRESET}",
    "generation": r"[0-9]+",
}


def written(source: str, document: dict[str, Any]) -> dict[str, bytes] | str:
    """The files, or the sentence with which the barrier refuses or waits."""
    read = settings_for(source)
    try:
        seen = VIEWS[source](read).loaded(document)
        if not isinstance(seen, Observation):
            return seen.text if isinstance(seen, Fault) else "no roster"
        decision = Gatekeeper(read.own_task).decide(seen)
        if not isinstance(decision, Released):
            return str(decision)
        files = render(decision, read, Container(OWN_HOSTS, "me"), decision.framework).files
    except (ShapeError, BarrierError) as refusal:
        return str(refusal)
    return {file.name: file.data for file in files}


def check(files: dict[str, bytes]) -> None:
    for name, data in files.items():
        shape = LINES.get(name, IP if name.endswith(".hosts") else None)
        if shape is not None:
            lines = data.decode().split("\n")
            assert lines.pop() == ""
            assert [line for line in lines if not re.fullmatch(shape, line)] == [], name
    assert all(json.loads(files[name]) for name in ("roster.json", "framework.json") if name in files)


@pytest.mark.parametrize("source", VALID)
def test_a_valid_document_of_each_source_is_written(source: str) -> None:
    files = written(source, VALID[source])
    assert isinstance(files, dict)
    check(files)
    assert files["worker.hosts"] == b"10.0.0.2\n10.0.0.3\n"


@pytest.mark.parametrize("source", VALID)
@given(data=st.data())
@hypothesis_settings(max_examples=EXAMPLES)
def test_each_line_of_each_file_has_its_shape_or_the_barrier_refuses(source: str, data: st.DataObject) -> None:
    files = written(source, data.draw(TAMPERED[source] | DOCUMENTS[source]))
    if isinstance(files, dict):
        check(files)
    else:
        assert files


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"name": "mnist\n10.6.6.6 registry.example"}, "framework: "),
        ({"name": "other"}, "framework.name: is 'other', FC_FRAMEWORK_NAME of this Pod is 'mnist'"),
        ({"namespace": "prod"}, "framework.namespace: is 'prod', FC_FRAMEWORK_NAMESPACE of this Pod is 'lab'"),
        ({"uid": "another"}, "framework.uid: is 'another', FC_FRAMEWORK_UID of this Pod is 'fw-uid'"),
        ({"attemptID": 2}, "framework.attemptID: is 2, FC_FRAMEWORK_ATTEMPT_ID of this Pod is 0"),
    ],
    ids=["a line break", "another name", "another namespace", "another uid", "another attempt"],
)
def test_a_roster_of_another_framework_does_not_open_and_says_why(changes: dict[str, Any], says: str) -> None:
    document = roster({"ps": 1, "worker": 2})
    document["framework"] |= changes
    refusal = written("roster", with_roster(document))
    assert isinstance(refusal, str)
    assert "has no usable roster" in refusal
    assert says in refusal


@pytest.mark.parametrize("env", ["FC_FRAMEWORK_NAMESPACE", "FC_FRAMEWORK_NAME", "FC_CONFIGMAP_NAME"])
@given(text=st.sampled_from([each for each in HOSTILE if each.strip()]) | st.text(min_size=1))
@example(text="a..b")
@example(text="a-.b")
@hypothesis_settings(max_examples=100)
def test_a_setting_that_is_a_name_is_one(env: str, text: str) -> None:
    try:
        read = settings.parse(environment() | {env: text})
    except SettingsError:
        return
    label = "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
    names = (read.namespace, read.framework, read.configmap)
    assert all(re.fullmatch(rf"{label}(\.{label})*", name) for name in names)
