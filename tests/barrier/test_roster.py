import base64
import gzip
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frameworkbarrier.errors import SettingsError
from frameworkbarrier.source import roster as subject
from frameworkbarrier.source.roster import RosterError
from tests.barrier.gangs import closed, configmap, roster, uid


def decode(**changes: Any) -> Any:
    return subject.decode(json.dumps(roster({"worker": 1}, **changes)))


def test_what_is_encoded_is_decoded_to_the_same() -> None:
    gang = subject.decode(json.dumps(roster({"chief": 1, "worker": 3})))
    assert subject.decode(subject.encode(gang)) == gang
    waiting = subject.decode(json.dumps(roster({"worker": 3}, ready=1, waitingFor=[{"task": "worker-2", "why": "x"}])))
    assert subject.decode(subject.encode(waiting)) == waiting


def test_a_configmap_without_roster_has_none() -> None:
    assert subject.find(configmap(None)) is None
    assert subject.find({"metadata": {}, "data": None, "binaryData": None}) is None


def test_the_compressed_form_is_found() -> None:
    text = json.dumps(roster({"worker": 2}))
    packed = base64.b64encode(gzip.compress(text.encode())).decode()
    assert subject.find({"binaryData": {"roster.gz": packed}}) == text


@pytest.mark.parametrize(
    "packed",
    ["!!!", base64.b64encode(b"plain").decode(), base64.b64encode(gzip.compress(b"x" * 100)[:-9]).decode()],
    ids=["not base64", "not gzip", "cut off"],
)
def test_a_broken_compressed_form_names_the_field(packed: str) -> None:
    with pytest.raises(RosterError, match=re.escape("binaryData['roster.gz']")):
        subject.find({"binaryData": {"roster.gz": packed}})


def test_a_bomb_is_not_unpacked() -> None:
    bomb = base64.b64encode(gzip.compress(b"\0" * (70 * 1024 * 1024))).decode()
    with pytest.raises(RosterError, match="64 MiB"):
        subject.find({"binaryData": {"roster.gz": bomb}})


UID8 = uid("worker", 0)[:8]


def tasks(*given: list[Any]) -> dict[str, Any]:
    return {"taskRoles": [{"name": "worker", "tasks": list(given)}]}


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"framework": None}, "framework"),
        ({"framework": {"namespace": "lab"}}, "name"),
        ({"generation": "1"}, "generation"),
        ({"ready": -1}, "ready"),
        ({"total": True}, "total"),
        ({"complete": "yes"}, "complete"),
        ({"taskRoles": None}, "taskRoles"),
        ({"taskRoles": [{"name": "a b", "tasks": []}]}, "taskRoles"),
        (tasks([0, "$(id)", UID8, 0, "", ""]), "taskRoles[worker]"),
        (tasks([0, "10.0.0.1\n", UID8, 0, "", ""]), "taskRoles[worker]"),
        (tasks([-1, "10.0.0.1", UID8, 0, "", ""]), "taskRoles[worker]"),
        (tasks([0, "10.0.0.1"]), "taskRoles[worker]"),
        (tasks([1, "10.0.0.1", UID8, 0, "node-1", ""]), "tasks[0]"),
        (tasks([0, "10.0.0.1", UID8, 0, "node 1", ""]), "tasks[0]"),
        (tasks([0, "10.0.0.1", UID8, 0, "node-1", "10.0.0.1 x"]), "tasks[0]"),
        *((tasks([0, "10.0.0.1", UID8, 0, "", "", starts]), "worker].tasks[0]") for starts in ("2", True, None, 2.5)),
        (tasks(), "has 0 Tasks, total is 1"),
        ({"epoch": -1}, "epoch: -1 is not a count"),
        ({"epoch": "1"}, "epoch: '1' is not a count"),
        ({"epoch": 1, "why": 7}, "why: 7 is not a string"),
        ({"epoch": 1, "behind": [["worker", 0, "abc"]]}, "is not [role, index, uid8, starts]"),
        ({"epoch": 1, "behind": [["worker", True, "abc", 1]]}, "is not [role, index, uid8, starts]"),
        ({"epoch": 1, "behind": {}}, "behind: {} is not of type list"),
        ({"waitingFor": ["worker-1"]}, "waitingFor"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_fault_names_the_field(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(RosterError, match=re.escape(field)):
        decode(**changes)


def test_another_version_cannot_ever_open() -> None:
    with pytest.raises(SettingsError, match="version 2"):
        decode(version=2)


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 20000, "null"])
def test_what_is_no_json_object_is_refused(text: str) -> None:
    with pytest.raises((RosterError, SettingsError)):
        subject.decode(text)


@given(st.text(alphabet=st.characters(codec="utf-8")))
def test_text_of_others_becomes_one_printable_line(text: str) -> None:
    line = subject.one_line(text)
    assert line.isprintable()
    assert len(line) <= 300
    assert subject.decode(json.dumps(closed(1, why=text))).why == line


@pytest.mark.parametrize("address", ["10.0.0.1", "fd00::1", "::ffff:10.0.0.1"])
def test_addresses_are_addresses(address: str) -> None:
    assert subject.is_ip(address)


@pytest.mark.parametrize("address", ["", "10.0.0", "10.0.0.1 ", "host", "fd00::1%eth0", "10.0.0.1;id", None, 10, "\0"])
def test_other_things_are_not_addresses(address: object) -> None:
    assert not subject.is_ip(address)
