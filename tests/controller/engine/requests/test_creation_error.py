"""The diagnostics of a refused Pod have the shape that Microsoft's controller writes."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frameworkcontroller.engine.requests.creation_error import describe
from frameworkkube.errors import error_of

CAUSE = {"reason": "FieldValueInvalid", "message": 'Invalid value: "NO"', "field": "spec.containers[0].name"}
INVALID: dict[str, Any] = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Failure",
    "message": 'Pod "fw-worker-0" is invalid: spec.containers[0].name: Invalid value: "NO": <must> be lower case',
    "reason": "Invalid",
    "details": {"name": "fw-worker-0", "kind": "Pod", "causes": [CAUSE]},
    "code": 422,
}


def described(code: int, body: object) -> str:
    raw = body if isinstance(body, bytes) else msgspec.json.encode(body)
    return describe(error_of(code, "Some Phrase", None, raw, now=0))


def test_a_status_is_wrapped_without_its_kind_and_in_the_order_of_its_fields() -> None:
    expected = {"ErrStatus": {key: value for key, value in INVALID.items() if key not in {"kind", "apiVersion"}}}
    assert described(422, INVALID) == json.dumps(expected, separators=(",", ":"))


def test_the_order_does_not_depend_on_that_of_the_server() -> None:
    details = dict(reversed(INVALID["details"].items()))
    details["causes"] = [dict(reversed(details["causes"][0].items()))]
    assert described(422, dict(reversed((INVALID | {"details": details}).items()))) == described(422, INVALID)


def test_what_is_empty_or_unknown_is_left_out_but_not_the_metadata() -> None:
    empty = {"reason": "", "details": {"retryAfterSeconds": 0}, "more": 1}
    status = {"kind": "Status", "message": "no", **empty, "code": 403}
    assert described(403, status) == '{"ErrStatus":{"metadata":{},"status":"Failure","message":"no","code":403}}'


def test_an_answer_that_is_no_status_becomes_one() -> None:
    assert described(413, b"<p>too large") == (
        '{"ErrStatus":{"metadata":{},"status":"Failure","message":"<p>too large","reason":"Some Phrase","code":413}}'
    )


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"message": "x" * 1_000_000}, id="message"),
        pytest.param({"details": {"causes": [{"message": "y" * 100}] * 10_000}}, id="causes"),
        pytest.param({"message": "\x00" * 1_000_000}, id="escapes"),
        # As webhooks do that have one text only.
        pytest.param({"reason": "denied " * 280}, id="reason"),
        pytest.param({"reason": "\x00" * 1_000_000, "message": "\x00" * 9}, id="long reason"),
        pytest.param({"status": "z" * 5_000, "metadata": {"continue": "z" * 5_000}}, id="the rest"),
    ],
)
def test_a_text_that_is_too_long_is_cut(change: dict[str, Any]) -> None:
    text = described(422, INVALID | change)
    assert len(text.encode()) <= 1900
    status = json.loads(text)["ErrStatus"]
    assert (status["reason"], status["code"]) == ((INVALID | change)["reason"][:100], 422)
    assert "details" not in status
    assert status["message"].startswith((INVALID | change)["message"][:80])


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=9,
)


@given(st.dictionaries(st.sampled_from([*INVALID, "more"]), ANYTHING), st.dictionaries(st.sampled_from("ab"), ANYTHING))
def test_a_status_of_any_shape_is_described(status: dict[str, Any], details: dict[str, Any]) -> None:
    text = described(422, status | {"kind": "Status", "details": details | {"causes": [details, None]}})
    assert isinstance(json.loads(text)["ErrStatus"]["metadata"], dict)
