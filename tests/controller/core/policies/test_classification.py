"""What a failed Pod's end means."""

import json
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frameworkcontroller.api.codes import FAILED, PERMANENT, TRANSIENT, TRANSIENT_CONFLICT
from frameworkcontroller.api.status import CompletionType
from frameworkcontroller.core.policies import classification
from frameworkcontroller.core.policies.classification import (
    CONTAINER_CONTRACT,
    CodeInfo,
    ContainerPattern,
    PodPattern,
    Range,
    Regex,
)
from tests.controller.core.values import pod, terminated


def container(**fields: Any) -> ContainerPattern:
    values: dict[str, Any] = {key: Regex(one) if isinstance(one, str) else one for key, one in fields.items()}
    return ContainerPattern(**values)


def pattern(*containers: ContainerPattern, **texts: str) -> PodPattern:
    return PodPattern(**{key: Regex(value) for key, value in texts.items()}, containers=containers)


def one(**fields: Any) -> PodPattern:
    """A pattern of one container."""
    return pattern(container(**fields))


def codes(*numbers: int) -> PodPattern:
    """A pattern of containers that have ended with these."""
    return pattern(*(container(code=Range(number, number)) for number in numbers))


def found(**parts: Any) -> dict[str, Any]:
    """These parts of one container matched."""
    return {"containers": [parts]}


def info(code: int, *patterns: PodPattern, kind: CompletionType = FAILED) -> CodeInfo:
    return CodeInfo(code, f"Phrase{code}", kind, patterns)


def ends(*containers: dict[str, Any], **init: dict[str, Any]) -> dict[str, Any]:
    """The status of a Pod with these containers."""
    return {"containerStatuses": list(containers), "initContainerStatuses": list(init.values())}


ERROR = {"reason": "Error"}
EVICTED: dict[str, Any] = {"reason": "Evicted", "message": "The node was low on resource: memory."}
KILLED = terminated("main", 137, signal=9, reason="OOMKilled", message="ran out\nof memory", finished=5)
WAITING = {"name": "main", "state": {"waiting": {"reason": "PodInitializing"}}}
IDLE = ends({"name": "idle", "state": {"running": {}}})
TWO = ends(terminated("a", 1, **ERROR), terminated("b", 2, **ERROR))
WITH_INIT = ends(WAITING, init=terminated("init", 7, **ERROR))
# It is ended only after the application is over, and then as a rule by a signal.
SIDECAR = terminated("proxy", 143, finished=9)
WITH_SIDECAR = ends(terminated("main", 3, finished=2), init=SIDECAR) | {"sidecars": ("proxy",)}


class Case(NamedTuple):
    """A pattern, the matched parts, None if it does not match, and the status of the Pod."""

    pattern: PodPattern
    matched: dict[str, Any] | None
    status: dict[str, Any] = ends(KILLED)


CASES = {
    "no fields match anything": Case(pattern(), {}),
    "the Pod's name, anywhere": Case(pattern(name="worker"), {"name": "worker"}),
    "the Pod's name, not there": Case(pattern(name="^worker"), None),
    "the Pod's reason": Case(pattern(reason="(?i)^evicted$"), {"reason": "Evicted"}, EVICTED),
    "the Pod's reason, another": Case(pattern(reason="NodeLost"), None, EVICTED),
    "the Pod's message": Case(pattern(message="low on .*: mem"), {"message": "low on resource: mem"}, EVICTED),
    "all fields": Case(pattern(reason="Evi", message="low"), {"reason": "Evi", "message": "low"}, EVICTED),
    "not all fields": Case(pattern(reason="Evicted", message="disk"), None, EVICTED),
    "an absent reason is the empty text": Case(pattern(reason="^$"), {}),
    "an absent reason has no letters": Case(pattern(reason="."), None),
    "the container's name": Case(one(name="ma"), found(name="ma")),
    "the container's reason": Case(one(reason="OOM"), found(reason="OOM")),
    "the container's message over lines": Case(one(message="(?s)out.of"), found(message="out\nof")),
    "a dot does not match a line's end": Case(one(message="out.of"), None),
    "the container's signal": Case(one(signal=Range(9, 9)), found(signal=9)),
    "another signal": Case(one(signal=Range(1, 8)), None),
    "the container's code": Case(codes(137), found(code=137)),
    "all fields of both, in the order of the reference": Case(
        pattern(
            container(name="main", reason="OOMKilled", message="memory", signal=Range(9), code=Range(max=255)),
            name="fw",
            reason="Evicted",
            message="low",
        ),
        {
            "name": "fw",
            "reason": "Evicted",
            "message": "low",
            "containers": [{"name": "main", "reason": "OOMKilled", "message": "memory", "signal": 9, "code": 137}],
        },
        EVICTED | ends(KILLED),
    ),
    "all fields but one of the container": Case(one(name="main", code=Range(max=1)), None),
    "fields of one pattern must meet in one container": Case(one(name="a", code=Range(2, 2)), None, TWO),
    "each pattern has its container": Case(codes(2, 1), {"containers": [{"code": 2}, {"code": 1}]}, TWO),
    "two patterns may meet in one container": Case(
        pattern(container(code=Range(1, 1)), container(name="a")), {"containers": [{"code": 1}, {"name": "a"}]}, TWO
    ),
    "one pattern without a container": Case(codes(1, 3), None, TWO),
    "the first container that matches": Case(one(name="."), found(name="a"), TWO),
    "an init container": Case(codes(7), found(code=7), WITH_INIT),
    "a container that never ran, by name": Case(one(name="main"), found(name="main"), WITH_INIT),
    "a container that never ran has no code": Case(one(name="main", code=Range()), None, WITH_INIT),
    "a container that runs has no code": Case(one(code=Range(0)), None, IDLE),
    "a container that runs has no reason": Case(one(reason=""), None, IDLE),
    "a container that runs has no message": Case(one(message=""), None, IDLE),
    "a container that runs has no signal": Case(one(signal=Range(max=0)), None, IDLE),
    "a container that ended well has code 0": Case(codes(0), found(code=0), ends(terminated("a", 0))),
    "any container": Case(one(), {}),
    "any container, and one by its code": Case(pattern(container(), container(code=Range(2, 2))), found(code=2), TWO),
    "signal 0 is no signal": Case(one(name="a", signal=Range(max=0)), found(name="a"), TWO),
    "any container, but there is none": Case(one(), None, EVICTED),
    "a sidecar": Case(codes(143), None, WITH_SIDECAR),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_pattern_matches_if_all_its_fields_do(case: Case) -> None:
    end = classification.failed(pod("Failed", **case.status), [info(-1000, case.pattern)])
    if case.matched is None:
        assert end.code != -1000
        assert end.diagnostics.startswith("Pod failed: PodPattern unmatched: ")
    else:
        compact = json.dumps(case.matched, separators=(",", ":"))
        assert (end.code, end.phrase, end.type) == (-1000, "Phrase-1000", FAILED)
        assert end.diagnostics == f"Pod failed: PodPattern matched: {compact}"


def test_the_first_code_that_matches_wins_by_its_first_pattern_that_does() -> None:
    never, first, second = pattern(name="^$"), pattern(name="w-w"), pattern(name="fw")
    codes = [info(-1000, never), info(-1001, never, first, second, kind=TRANSIENT), info(-1002, pattern())]
    end = classification.failed(pod("Failed"), codes)
    assert (end.code, end.type) == (-1001, TRANSIENT)
    assert end.diagnostics == 'Pod failed: PodPattern matched: {"name":"w-w"}'


CONTRACT = {
    200: ("ContainerTransientFailed", TRANSIENT),
    201: ("ContainerTransientConflictFailed", TRANSIENT_CONFLICT),
    210: ("ContainerPermanentFailed", PERMANENT),
}


@pytest.mark.parametrize("code", CONTRACT)
@pytest.mark.parametrize("message", ["", "peers are gone", "first line\nlast line\n", "\x00 <b> & \u2028 \U0001f4a5"])
def test_what_a_container_says_by_its_exit_code_comes_before_any_configured_code(code: int, message: str) -> None:
    status = ends(terminated("other", 0), terminated("main", code, **ERROR, message=message))
    end = classification.failed(pod("Failed", **status), (*CONTAINER_CONTRACT, info(-1000, pattern())))
    assert (end.code, end.phrase, end.type) == (code, *CONTRACT[code])
    shown = {"name": "main"} | ({"message": message} if message else {}) | {"code": code}
    text = msgspec.json.encode({"containers": [shown]}).decode()
    assert end.diagnostics == f"Pod failed: PodPattern matched: {text}"


A1, A2 = terminated("a", 3, finished=1), terminated("a", 3, finished=2)

UNMATCHED: dict[str, tuple[int, dict[str, Any]]] = {
    "the only container": (3, ends(A1)),
    "the one that finished last": (4, ends(terminated("a", 4, finished=9), terminated("b", 3, finished=1))),
    "the one that failed, though another finished later": (3, ends(A1, terminated("b", 0, finished=9))),
    "an init container": (5, ends(WAITING, init=terminated("i", 5, finished=1))),
    "a container after its init container": (3, ends(A2, init=terminated("i", 5, finished=1))),
    "an init container that ended later": (143, ends(A2, init=terminated("i", 143, finished=3))),
    "no sidecar": (3, WITH_SIDECAR),
    "a container without a time is the first": (3, ends(terminated("b", 4), A1)),
    "none: there are no containers": (-300, EVICTED),
    "none: it runs": (-300, IDLE),
    "none: it ended well": (-300, ends(terminated("a", 0))),
}


@pytest.mark.parametrize(("code", "status"), UNMATCHED.values(), ids=UNMATCHED)
def test_without_a_match_the_failed_container_that_finished_last_gives_the_code(
    code: int, status: dict[str, Any]
) -> None:
    end = classification.failed(pod("Failed", **status), [])
    phrase = "PodFailedWithoutFailedContainer" if code == -300 else "ContainerUnrecognizedFailed"
    assert (end.code, end.phrase, end.type) == (code, phrase, FAILED)


def test_the_whole_end_of_a_pod_is_kept_and_shown_if_nothing_matches() -> None:
    statuses = ends(KILLED, WAITING, init=terminated("proxy", 0))
    seen = pod("Failed", sidecars=("proxy",), reason="R", message="M", **statuses)
    text = (
        '{"reason":"R","message":"M","containers":[{"name":"proxy","code":0},'
        '{"name":"main","reason":"OOMKilled","message":"ran out\\nof memory","signal":9,"code":137}]}'
    )
    unmatched = classification.failed(seen, [])
    assert unmatched.diagnostics == f"Pod failed: PodPattern unmatched: {text}"
    succeeded = classification.succeeded(seen)
    assert (succeeded.code, succeeded.phrase, succeeded.diagnostics) == (0, "Succeeded", "Pod succeeded")
    for end in (unmatched, succeeded, classification.failed(seen, [info(-1, pattern())])):
        assert msgspec.json.encode(end.pod).decode() == text


@pytest.mark.parametrize("source", ["(", "a**", r"\1", "(?=ahead)", "[z-a]"])
def test_what_is_no_regular_expression_of_re2_is_an_error_that_quotes_it(source: str) -> None:
    with pytest.raises(ValueError, match="is not a regular expression in RE2 syntax") as error:
        Regex(source)
    assert repr(source) in str(error.value)


def test_a_regular_expression_takes_linear_time_on_any_message() -> None:
    evil = Regex("(a*)*b")
    assert evil.find("a" * 100_000) is None


@given(st.text(max_size=20), st.text(max_size=5))
def test_text_of_any_language_is_found_as_it_is(around: str, wanted: str) -> None:
    import re2

    assert Regex(re2.escape(wanted)).find(f"{around}{wanted}{around}") == wanted


@given(st.integers(), st.none() | st.integers(), st.none() | st.integers())
def test_a_range_includes_both_its_ends(value: int, low: int | None, high: int | None) -> None:
    below = low is not None and value < low
    above = high is not None and high < value
    if low is not None and high is not None and low > high:
        with pytest.raises(ValueError, match="is greater than max"):
            Range(low, high)
    else:
        assert (value in Range(low, high)) == (not below and not above)
