"""The whole request path against random inputs; `coverage_fuzzer` tries many more."""

import json
import os
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frameworkinjector.names import LABEL
from frameworkinjector.review.config import EnvFiles
from frameworkinjector.review.reasons import Reason
from tests.injector.random_fuzzer import check, mutated, seeds
from tests.injector.reviews import LABELS, review_of

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "2000"))
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=3),
    max_leaves=8,
)


@given(body=st.binary(max_size=300) | ANYTHING.map(json.dumps).map(str.encode))
@settings(max_examples=400)
def test_any_bytes_and_any_json_are_answered(body: bytes) -> None:
    check(body)


def test_mutations_of_the_golden_pods_are_answered() -> None:
    draw, known, supports = random.Random(20261121), seeds(), list(EnvFiles)
    reasons = {check(mutated(known, draw), draw.choice(supports)).verdict.reason for _ in range(EXAMPLES)}
    # The mutations reach the whole path, not its first check only.
    reached = {Reason.INJECTED, Reason.MALFORMED_POD, Reason.NOT_A_REVIEW, Reason.BAD_VALUE, Reason.TOO_MANY_CONTAINERS}
    assert reached <= reasons


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        ({"operation": "UPDATE"}, Reason.NOT_A_CREATE),
        ({"operation": "DELETE", "object": None}, Reason.NOT_A_CREATE),
        ({"subResource": "ephemeralcontainers"}, Reason.NOT_A_CREATE),
        ({"kind": {"group": "apps", "version": "v1", "kind": "Deployment"}}, Reason.NOT_A_POD),
        ({"kind": {"group": "other", "version": "v1", "kind": "Pod"}}, Reason.NOT_A_POD),
        ({"object": None}, Reason.MALFORMED_POD),
        ({"object": []}, Reason.MALFORMED_POD),
        ({"dryRun": True}, Reason.INJECTED),
        ({"dryRun": None}, Reason.INJECTED),
    ],
)
def test_the_request_is_checked_before_the_pod(request_: dict[str, Any], reason: Reason) -> None:
    pod = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "app"}]}}
    assert check(review_of(pod, **request_)).verdict.reason is reason


@pytest.mark.parametrize(("opened", "closed"), [("[", "]"), ('{"x":', "}")], ids=["lists", "objects"])
@pytest.mark.parametrize("depth", [100, 1000, 10_000, 500_000])
def test_deep_nesting_is_answered(depth: int, opened: str, closed: str) -> None:
    body = review_of({"metadata": {"labels": {LABEL: "enabled"}}, "spec": {"deep": 1}})
    check(body.replace(b'"deep": 1', f'"deep": {opened * depth}1{closed * depth}'.encode()))
