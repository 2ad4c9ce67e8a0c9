import base64
import gzip
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frameworkbarrier.errors import GoneError, SettingsError
from frameworkbarrier.source import roster as subject
from frameworkbarrier.source.roster import RosterError
from frameworkbarrier.text import is_ip, one_line
from tests.barrier.gangs import closed, configmap, foreign, roster, uid


def decode(**changes: Any) -> Any:
    return subject.decode(json.dumps(roster({"worker": 1}, **changes)))


def test_what_is_encoded_is_decoded_to_the_same() -> None:
    gang = subject.decode(json.dumps(roster({"chief": 1, "worker": 3})))
    assert subject.decode(subject.encode(gang)) == gang
    ordered = subject.decode(json.dumps(roster({"chief": 1, "worker": 3}, orders={"worker": [0, 2, 1]})))
    assert [list(role.by_rank) for role in ordered.roles] == [[0], [0, 2, 1]]
    assert subject.decode(subject.encode(ordered)) == ordered
    waiting = subject.decode(json.dumps(roster({"worker": 3}, ready=1, waitingFor=[{"task": "worker-2", "why": "x"}])))
    assert subject.decode(subject.encode(waiting)) == waiting
    assert subject.decode(json.dumps(foreign({"worker": 1}))).roles[0].tasks[0].pod == "train-worker-0"


def compressed(data: bytes) -> dict[str, Any]:
    return {"binaryData": {"roster.gz": base64.b64encode(data).decode()}}


def test_a_configmap_has_a_roster_or_a_compressed_one_or_none() -> None:
    text = json.dumps(roster({"worker": 2}))
    assert subject.find(configmap(roster({"worker": 2}))) == text
    assert subject.find(compressed(gzip.compress(text.encode()))) == text
    assert subject.find(configmap(None)) is None
    assert subject.find({"metadata": {}, "data": None, "binaryData": None}) is None


UNREADABLE = {
    "not base64": ({"binaryData": {"roster.gz": "!!!"}}, "binaryData['roster.gz']"),
    "not gzip": (compressed(b"plain"), "binaryData['roster.gz']"),
    "cut off": (compressed(gzip.compress(b"x" * 100)[:-9]), "binaryData['roster.gz']"),
    "a bomb": (compressed(gzip.compress(bytes(70 * 1024 * 1024))), "64 MiB"),
}


@pytest.mark.parametrize(("document", "says"), UNREADABLE.values(), ids=UNREADABLE)
def test_a_compressed_form_that_cannot_be_read_is_refused(document: dict[str, Any], says: str) -> None:
    with pytest.raises(RosterError, match=re.escape(says)):
        subject.find(document)


UID8 = uid("worker", 0)[:8]
TASK = [0, "10.0.0.1", UID8, 0, "", ""]
WRONG_ORDERS: list[Any] = [[], [1], [-1], [0, 0], [0, 1], [False], [0.0], ["0"], [None], [[0]], "0", 0, False, {"0": 0}]


def tasks(*given: list[Any], **more: Any) -> dict[str, Any]:
    return {"taskRoles": [{"name": "worker", "tasks": list(given), **more}]}


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
        *((tasks(TASK, pods=pods), "pods: ") for pods in ([], ["a", "b"], ["B"], [7], "a", None)),
        *((tasks(TASK, order=order), f"taskRoles[worker].order: {order!r} is not ") for order in WRONG_ORDERS),
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


@given(st.permutations(range(6)))
def test_any_order_of_the_indices_is_an_order_and_one_with_a_repetition_is_none(order: list[int]) -> None:
    document = roster({"worker": 6}, orders={"worker": order})
    assert subject.decode(json.dumps(document)).roles[0].order == tuple(order)
    document["taskRoles"][0]["order"][0] = order[1]
    with pytest.raises(RosterError, match=r"taskRoles\[worker\]\.order: .* 6 Tasks"):
        subject.decode(json.dumps(document))


def test_another_version_or_a_gang_that_can_never_be_complete_ends_the_barrier() -> None:
    with pytest.raises(SettingsError, match="version 2"):
        decode(version=2)
    with pytest.raises(GoneError, match=r"the gang can never be complete: spec\.parallelism is 1") as end:
        decode(never="spec.parallelism is 1")
    assert end.value.exit_code == 210


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 20000, "null"])
def test_what_is_no_json_object_is_refused(text: str) -> None:
    with pytest.raises((RosterError, SettingsError)):
        subject.decode(text)


@given(st.text(alphabet=st.characters(codec="utf-8")))
def test_text_of_others_becomes_one_printable_line(text: str) -> None:
    line = one_line(text)
    assert line.isprintable()
    assert len(line) <= 300
    assert subject.decode(json.dumps(closed(1, why=text))).why == line


ADDRESSES = ("10.0.0.1", "fd00::1", "::ffff:10.0.0.1")
OTHERS = ("", "10.0.0", "10.0.0.1 ", "host", "fd00::1%eth0", "10.0.0.1;id", None, 10, "\0")


@pytest.mark.parametrize("address", [*ADDRESSES, *OTHERS])
def test_addresses_are_addresses_and_nothing_else_is(address: object) -> None:
    assert is_ip(address) is (address in ADDRESSES)
