"""Documents are cut into their members whatever they contain, in linear time."""

import contextlib
import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frameworkcontroller.api.framework import FRAMEWORK_DECODER
from frameworkkube import json_parts
from frameworkkube.informer.watch_events import Identity, UndecodableObject, WireDecoder

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)
INDENTS = st.sampled_from([None, 0, 3])


@given(st.dictionaries(st.text(), VALUES), INDENTS, st.booleans())
def test_an_object_is_cut_as_the_json_library_reads_it(value: object, indent: int | None, is_ascii: bool) -> None:
    document = json.dumps(value, indent=indent, ensure_ascii=is_ascii).encode()
    assert {name: json.loads(part) for name, part in json_parts.members(b" " + document).items()} == value


@given(st.lists(VALUES), INDENTS)
def test_an_array_is_cut_as_the_json_library_reads_it(value: object, indent: int | None) -> None:
    assert [json.loads(part) for part in json_parts.elements(json.dumps(value, indent=indent).encode())] == value


@given(st.dictionaries(st.text(), VALUES, min_size=1), st.data())
def test_one_member_is_cut_without_a_look_at_what_follows(value: dict[str, object], data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(list(value)))
    before = {other: value[other] for other in list(value)[: list(value).index(name)]}
    document = json.dumps(before | {name: value}).encode()[:-1] + b', "rest": [[[['
    assert json.loads(json_parts.member(document, name)) == value
    with pytest.raises(KeyError):
        json_parts.member(json.dumps(before).encode(), name)


@given(st.dictionaries(st.text(), VALUES, min_size=1), st.data())
def test_a_document_that_is_cut_off_is_refused(value: object, data: st.DataObject) -> None:
    document = json.dumps(value).encode()
    with pytest.raises(ValueError, match=r"byte|end|truncated"):
        json_parts.members(document[: data.draw(st.integers(0, len(document) - 1))])


@given(st.binary() | st.text('[]{}",:\\a ').map(str.encode))
def test_bytes_of_any_kind_are_cut_or_refused(document: bytes) -> None:
    for cut in (json_parts.members, json_parts.elements):
        with contextlib.suppress(ValueError):
            cut(document)


HOSTILE = {
    "deep": b'{"a":' + b"[" * 500_000 + b"]" * 500_000 + b"}",
    "deep without an end": b'{"a":' + b"[" * 1_000_000,
    "a string without an end": b'{"a":["' + b"x" * 1_000_000,
    "escaped quotes without an end": b'{"a":["' + rb"\"" * 500_000,
    "many strings": b'{"a":[' + b'"",' * 300_000 + b'""]}',
    "blanks": b'{"a":' + b" " * 1_000_000 + b"1}",
    "names": b'{"a":1' + b',"a":1' * 150_000 + b"}",
}


DEEP = b"[" * 2000 + b"]" * 2000 + b",[]" * 300_000
NAMED = b'"name":"a","namespace":"n","resourceVersion":"7","uid":"u"'
TYPED = b'"name":"a","namespace":"n","uid":"u","resourceVersion":"7","annotations":{"managedFields":"["}'
METADATA = {
    "plain": NAMED,
    "deep managedFields": b'"managedFields":[{"fieldsV1":[' + DEEP + b'],"time":"t"}],' + NAMED,
    "deep managedFields that come last": TYPED + b',"managedFields":[{"time":"t","fieldsV1":[' + DEEP + b"]}]",
    "strings that look like what is searched": json.dumps(
        {"annotations": {"a": '},"spec":{', "spec": '}],"name":"b"', "managedFields": '"managedFields":['}}
    ).encode()[1:-1]
    + b',"managedFields":[{"fieldsV1":{"f:spec":{"f:name":['
    + DEEP
    + b"]}}}],"
    + NAMED,
}


@pytest.mark.parametrize("metadata", METADATA.values(), ids=METADATA)
@pytest.mark.parametrize("tail", [b"", b"\n"], ids=["", "line"])
def test_a_deep_event_is_read_without_a_look_at_each_of_its_brackets(
    metadata: bytes, tail: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each took 0.7 s, and 0.26 s if `managedFields` were deep; all others of its kind waited for it."""
    looks = 0
    cut = json_parts._end_of_value

    def counted(document: bytes, at: int) -> int:
        nonlocal looks
        end = cut(document, at)
        looks += document.count(b"[", at, end)
        return end

    monkeypatch.setattr(json_parts, "_end_of_value", counted)
    line = b'{"type":"MODIFIED","object":{"kind":"X","metadata":{%b},"spec":{"x":[%b]}}}%b'
    event = WireDecoder(FRAMEWORK_DECODER).event(line % (metadata, DEEP, tail))
    assert event is not None
    assert isinstance(event.object, UndecodableObject)
    assert event.object.identity == Identity("a", "n", "u", "7")
    assert (event.type, event.resource_version) == ("MODIFIED", "7")
    assert looks == 0


@pytest.mark.parametrize("document", HOSTILE.values(), ids=HOSTILE)
def test_the_time_is_linear_whatever_the_document(document: bytes) -> None:
    began = time.process_time()
    with contextlib.suppress(ValueError):
        json_parts.members(document)
    assert time.process_time() - began < 10
