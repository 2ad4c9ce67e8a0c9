"""What a failed Pod's end means."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frameworkcontroller.api.codes import FAILED, TRANSIENT
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

if TYPE_CHECKING:
    from frameworkcontroller.api.status import CompletionType


def container(**fields: Any) -> ContainerPattern:
    values: dict[str, Any] = {key: Regex.parse(one) if isinstance(one, str) else one for key, one in fields.items()}
    return ContainerPattern(**values)


def pattern(*containers: ContainerPattern, **texts: str) -> PodPattern:
    return PodPattern(**{key: Regex.parse(value) for key, value in texts.items()}, containers=containers)


def info(code: int, *patterns: PodPattern, kind: CompletionType = FAILED) -> CodeInfo:
    return CodeInfo(code, f"Phrase{code}", kind, patterns)


KILLED = terminated("main", 137, signal=9, reason="OOMKilled", message="ran out\nof memory", finished=5)


@dataclass(frozen=True)
class Case:
    """A pattern, a Pod, and the matched parts, None if it does not match."""

    pattern: PodPattern
    matched: dict[str, Any] | None
    status: dict[str, Any] = field(default_factory=lambda: {"containerStatuses": [KILLED]})


EVICTED: dict[str, Any] = {"reason": "Evicted", "message": "The node was low on resource: memory."}
RUNNING: dict[str, Any] = {"name": "idle", "state": {"running": {}}}
IDLE: dict[str, Any] = {"containerStatuses": [RUNNING]}
TWO: dict[str, Any] = {"containerStatuses": [terminated("a", 1, reason="Error"), terminated("b", 2, reason="Error")]}
WAITING = {"name": "main", "state": {"waiting": {"reason": "PodInitializing"}}}
WITH_INIT: dict[str, Any] = {
    "initContainerStatuses": [terminated("init", 7, reason="Error")],
    "containerStatuses": [WAITING],
}

CASES = {
    "no fields match anything": Case(pattern(), {}),
    "the Pod's name, anywhere": Case(pattern(name="worker"), {"name": "worker"}),
    "the Pod's name, not there": Case(pattern(name="^worker"), None),
    "the Pod's reason": Case(pattern(reason="(?i)^evicted$"), {"reason": "Evicted"}, EVICTED),
    "the Pod's reason, another": Case(pattern(reason="NodeLost"), None, EVICTED),
    "the Pod's message, only what matched": Case(
        pattern(message="low on .*: mem"), {"message": "low on resource: mem"}, EVICTED
    ),
    "all fields": Case(pattern(reason="Evi", message="low"), {"reason": "Evi", "message": "low"}, EVICTED),
    "not all fields": Case(pattern(reason="Evicted", message="disk"), None, EVICTED),
    "an absent reason is the empty text": Case(pattern(reason="^$"), {}),
    "an absent reason has no letters": Case(pattern(reason="."), None),
    "the container's name": Case(pattern(container(name="ma")), {"containers": [{"name": "ma"}]}),
    "the container's reason": Case(pattern(container(reason="OOM")), {"containers": [{"reason": "OOM"}]}),
    "the container's message over lines": Case(
        pattern(container(message="(?s)out.of")), {"containers": [{"message": "out\nof"}]}
    ),
    "a dot does not match a line's end": Case(pattern(container(message="out.of")), None),
    "the container's signal": Case(pattern(container(signal=Range(9, 9))), {"containers": [{"signal": 9}]}),
    "another signal": Case(pattern(container(signal=Range(1, 8))), None),
    "the container's code": Case(pattern(container(code=Range(137, 137))), {"containers": [{"code": 137}]}),
    "all fields of the container": Case(
        pattern(container(name="main", reason="OOMKilled", message="memory", signal=Range(9), code=Range(max=255))),
        {"containers": [{"name": "main", "reason": "OOMKilled", "message": "memory", "signal": 9, "code": 137}]},
    ),
    "all fields but one of the container": Case(pattern(container(name="main", code=Range(max=1))), None),
    "fields of one pattern must meet in one container": Case(pattern(container(name="a", code=Range(2, 2))), None, TWO),
    "each pattern has its container": Case(
        pattern(container(code=Range(2, 2)), container(code=Range(1, 1))),
        {"containers": [{"code": 2}, {"code": 1}]},
        TWO,
    ),
    "two patterns may meet in one container": Case(
        pattern(container(code=Range(1, 1)), container(name="a")), {"containers": [{"code": 1}, {"name": "a"}]}, TWO
    ),
    "one pattern without a container": Case(
        pattern(container(code=Range(1, 1)), container(code=Range(3, 3))), None, TWO
    ),
    "the first container that matches": Case(pattern(container(name=".")), {"containers": [{"name": "a"}]}, TWO),
    "an init container": Case(pattern(container(code=Range(7, 7))), {"containers": [{"code": 7}]}, WITH_INIT),
    "a container that never ran, by name": Case(
        pattern(container(name="main")), {"containers": [{"name": "main"}]}, WITH_INIT
    ),
    "a container that never ran has no code": Case(pattern(container(name="main", code=Range())), None, WITH_INIT),
    "a container that runs has no code": Case(pattern(container(code=Range(0))), None, IDLE),
    "a container that runs has no reason": Case(pattern(container(reason="")), None, IDLE),
    "a container that runs has no message": Case(pattern(container(message="")), None, IDLE),
    "a container that runs has no signal": Case(pattern(container(signal=Range(max=0))), None, IDLE),
    "a container that ended well has code 0": Case(
        pattern(container(code=Range(0, 0))), {"containers": [{"code": 0}]}, {"containerStatuses": [terminated("a", 0)]}
    ),
    "any container": Case(pattern(container()), {}),
    "any container, and one by its code": Case(
        pattern(container(), container(code=Range(2, 2))), {"containers": [{"code": 2}]}, TWO
    ),
    "signal 0 is no signal": Case(
        pattern(container(name="a", signal=Range(max=0))), {"containers": [{"name": "a"}]}, TWO
    ),
    "any container, but there is none": Case(pattern(container()), None, EVICTED),
    "Pod and container": Case(
        pattern(container(name="main"), name="fw"), {"name": "fw", "containers": [{"name": "main"}]}
    ),
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


def test_the_first_code_that_matches_wins() -> None:
    never, always = pattern(name="^$"), pattern()
    codes = [info(-1000, never), info(-1001, never, always, kind=TRANSIENT), info(-1002, always)]
    end = classification.failed(pod("Failed"), codes)
    assert (end.code, end.type) == (-1001, TRANSIENT)


def test_the_diagnostics_are_of_the_first_pattern_that_matches() -> None:
    end = classification.failed(pod("Failed"), [info(-1, pattern(name="x"), pattern(name="w-w"), pattern(name="fw"))])
    assert end.diagnostics == 'Pod failed: PodPattern matched: {"name":"w-w"}'


def test_what_a_container_says_by_its_exit_code_comes_before_any_configured_code() -> None:
    codes = (*CONTAINER_CONTRACT, info(-1000, pattern()))
    expected = {
        200: ("ContainerTransientFailed", ("Transient",)),
        201: ("ContainerTransientConflictFailed", ("Transient", "Conflict")),
        210: ("ContainerPermanentFailed", ("Permanent",)),
    }
    for code, (phrase, attributes) in expected.items():
        end = classification.failed(pod("Failed", containerStatuses=[terminated("main", code)]), codes)
        assert (end.code, end.phrase, end.type.attributes) == (code, phrase, attributes)


@pytest.mark.parametrize("info", CONTAINER_CONTRACT, ids=lambda info: info.phrase)
@pytest.mark.parametrize("message", ["", "peers are gone", "first line\nlast line\n", "\x00 <b> & \u2028 \U0001f4a5"])
def test_the_diagnostics_show_which_container_said_so_and_all_that_it_said(info: CodeInfo, message: str) -> None:
    ends = [terminated("other", 0), terminated("main", info.code, reason="Error", message=message)]
    diagnostics = classification.failed(pod("Failed", containerStatuses=ends), CONTAINER_CONTRACT).diagnostics
    shown = {"name": "main"} | ({"message": message} if message else {}) | {"code": info.code}
    prefix, _, parts = diagnostics.partition("matched: ")
    assert prefix == "Pod failed: PodPattern "
    assert json.loads(parts) == {"containers": [shown]}
    assert list(json.loads(parts)["containers"][0]) == list(shown)


def test_the_parts_of_a_container_come_in_the_order_of_the_reference() -> None:
    seen = pod("Failed", reason="R", message="M", containerStatuses=[KILLED])
    keys = ["name", "reason", "message", "signal", "code"]
    everything = pattern(
        container(name=".*", reason=".*", message=".*", signal=Range(9), code=Range(1)),
        name=".*",
        reason=".*",
        message=".*",
    )
    matched = json.loads(classification.failed(seen, [info(-1000, everything)]).diagnostics.partition("matched: ")[2])
    assert list(matched) == ["name", "reason", "message", "containers"]
    assert list(matched["containers"][0]) == keys
    unmatched = json.loads(classification.failed(seen, []).diagnostics.partition("unmatched: ")[2])
    assert list(unmatched) == ["reason", "message", "containers"]
    assert list(unmatched["containers"][0]) == keys


def test_the_whole_end_of_the_pod_is_kept_beside_what_matched() -> None:
    end = classification.failed(pod("Failed", reason="R", containerStatuses=[KILLED, RUNNING]), [info(-1, pattern())])
    assert json.loads(msgspec.json.encode(end))["pod"] == {
        "reason": "R",
        "containers": [
            {"name": "main", "code": 137, "reason": "OOMKilled", "message": "ran out\nof memory", "signal": 9}
        ],
    }


A1, A2 = terminated("a", 3, finished=1), terminated("a", 3, finished=2)

UNMATCHED: dict[str, tuple[int, list[dict[str, Any]], list[dict[str, Any]]]] = {
    "the only container": (3, [A1], []),
    "the one that finished last": (4, [terminated("a", 4, finished=9), terminated("b", 3, finished=1)], []),
    "the one that failed, though another finished later": (3, [A1, terminated("b", 0, finished=9)], []),
    "an init container": (5, [WAITING], [terminated("i", 5, finished=1)]),
    "a container after its init container": (3, [A2], [terminated("i", 5, finished=1)]),
    "an init container that ended later": (143, [A2], [terminated("i", 143, finished=3)]),
    "a container without a time is the first": (3, [terminated("b", 4), A1], []),
}


@pytest.mark.parametrize(("code", "containers", "inits"), UNMATCHED.values(), ids=UNMATCHED)
def test_without_a_match_the_failed_container_that_finished_last_gives_the_code(
    code: int, containers: list[dict[str, Any]], inits: list[dict[str, Any]]
) -> None:
    end = classification.failed(pod("Failed", containerStatuses=containers, initContainerStatuses=inits), [])
    assert (end.code, end.phrase, end.type) == (code, "ContainerUnrecognizedFailed", FAILED)


def test_a_sidecar_gives_no_code_and_matches_nothing_but_is_reported() -> None:
    """It is ended only after the application is over, and then as a rule by a signal."""
    statuses: dict[str, Any] = {
        "containerStatuses": [terminated("main", 3, finished=2)],
        "initContainerStatuses": [terminated("proxy", 143, finished=9)],
    }
    seen = pod("Failed", sidecars=("proxy",), **statuses)
    end = classification.failed(seen, [info(-1000, pattern(container(code=Range(143, 143))))])
    assert (end.code, end.phrase) == (3, "ContainerUnrecognizedFailed")
    assert end.pod is not None
    assert [one.name for one in end.pod.containers] == ["proxy", "main"]
    assert classification.failed(pod("Failed", **statuses), []).code == 143


@pytest.mark.parametrize(
    "statuses",
    [[], [RUNNING], [terminated("a", 0)]],
    ids=["no containers", "a container that runs", "a container that ended well"],
)
def test_without_a_failed_container_the_code_says_so(statuses: list[dict[str, Any]]) -> None:
    end = classification.failed(pod("Failed", **EVICTED, containerStatuses=statuses), [])
    assert (end.code, end.phrase, end.type) == (-300, "PodFailedWithoutFailedContainer", FAILED)


def test_unmatched_diagnostics_are_the_whole_end_of_the_pod() -> None:
    end = classification.failed(
        pod("Failed", **EVICTED, containerStatuses=[terminated("a", 0, reason="Completed")]), []
    )
    text = end.diagnostics.removeprefix("Pod failed: PodPattern unmatched: ")
    assert json.loads(text) == {**EVICTED, "containers": [{"name": "a", "code": 0, "reason": "Completed"}]}
    assert text == json.dumps(json.loads(text), separators=(",", ":"))


def test_a_pod_that_succeeded_tells_of_its_containers() -> None:
    end = classification.succeeded(pod("Succeeded", containerStatuses=[terminated("a", 0, reason="Completed")]))
    assert (end.code, end.phrase, end.diagnostics) == (0, "Succeeded", "Pod succeeded")
    assert end.pod is not None
    assert [(one.name, one.code, one.reason) for one in end.pod.containers] == [("a", 0, "Completed")]


@pytest.mark.parametrize("source", ["(", "a**", r"\1", "(?=ahead)", "[z-a]"])
def test_what_is_no_regular_expression_of_re2_is_an_error_that_quotes_it(source: str) -> None:
    with pytest.raises(ValueError, match="is not a regular expression in RE2 syntax") as error:
        Regex.parse(source)
    assert repr(source) in str(error.value)


def test_a_regular_expression_takes_linear_time_on_any_message() -> None:
    evil = Regex.parse("(a*)*b")
    assert evil.find("a" * 100_000) is None


@given(st.text(max_size=20), st.text(max_size=5))
def test_text_of_any_language_is_found_as_it_is(around: str, wanted: str) -> None:
    import re2

    assert Regex.parse(re2.escape(wanted)).find(f"{around}{wanted}{around}") == wanted


@given(st.integers(), st.none() | st.integers(), st.none() | st.integers())
def test_a_range_includes_both_its_ends(value: int, low: int | None, high: int | None) -> None:
    below = low is not None and value < low
    above = high is not None and high < value
    assert (value in Range(low, high)) == (not below and not above)
