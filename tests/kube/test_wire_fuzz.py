"""What a watch or a list answers, broken at random; `wire_fuzzer` tries many more."""

from __future__ import annotations

import random

import pytest

from tests.kube.wire_fuzzer import DECODERS, check


@pytest.mark.parametrize("kind", DECODERS)
def test_what_is_broken_costs_only_itself(kind: str) -> None:
    outcomes = {check(kind, random.Random(number)) for number in range(250)}
    assert {"left out of a page", "decoded in a page", "left out of a watch", "MalformedError", "decoded"} <= outcomes
