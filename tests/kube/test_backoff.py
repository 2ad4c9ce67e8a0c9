"""Pauses after failures: one formula, and plain retries that use it."""

import pytest
import tenacity
from hypothesis import given
from hypothesis import strategies as st

from frameworkkube.backoff import CEILING_SECONDS, FLOOR_SECONDS, pause_seconds, retrying
from frameworkkube.errors import ApiStatusError, TransportError
from tests.kube.lab import Lab
from tests.kube.scripted import TEXT_429, answer, refusal, reset_connection

PATH = "/api/v1/pods"


@given(st.integers(1, 10**6), st.floats(0, 1, exclude_max=True), st.none() | st.floats(0, 300))
def test_a_pause_is_bounded_and_never_shorter_than_asked(failures: int, drawn: float, asked: float | None) -> None:
    pause = pause_seconds(failures, lambda: drawn, asked)
    assert pause >= max(FLOOR_SECONDS, asked or 0)
    assert pause <= max(CEILING_SECONDS, (asked or 0) + FLOOR_SECONDS)


async def test_retrying_waits_as_long_as_the_server_asks(lab: Lab) -> None:
    lab.on("GET", TEXT_429, TEXT_429, answer(200, {"a": 1}))
    assert await retrying(sleep=lab.sleep, draw=lambda: 0.5)(lab.client.get, PATH) == b'{"a": 1}'
    assert len(lab.requests) == 3
    assert all(pause >= 1 for pause in lab.slept)


@pytest.mark.parametrize("code", [404, 422, 501])
async def test_retrying_raises_at_once_what_is_not_transient(lab: Lab, code: int) -> None:
    lab.on("GET", refusal(code, "Whatever"))
    with pytest.raises(ApiStatusError, match=f"{code} Whatever"):
        await retrying(sleep=lab.sleep)(lab.client.get, PATH)
    assert len(lab.requests) == 1


async def test_retrying_ends_with_the_last_error_and_its_waits_grow_up_to_a_ceiling(lab: Lab) -> None:
    lab.on("GET", *[refusal(500, "InternalError")] * 6, then=reset_connection)
    policy = retrying(stop=tenacity.stop_after_attempt(8), sleep=lab.sleep, draw=lambda: 1.0)
    with pytest.raises(TransportError):
        await policy(lab.client.get, PATH)
    assert lab.slept == [1.6, 3.2, 6.4, 12.8, 25.6, 30, 30]
