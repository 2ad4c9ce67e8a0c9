"""What the end of a failed Pod means, by patterns in order (docs/reference/framework-api.md, section 6)."""

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Final, TypeAlias, TypeVar

import msgspec
import re2
from msgspec import Meta, Struct
from msgspec.structs import replace

from frameworkcontroller.api.codes import FAILED, PREDEFINED, UNRECOGNIZED_PHRASE, Code
from frameworkcontroller.api.meta import Wire
from frameworkcontroller.api.pod import ContainerStatus, Pod
from frameworkcontroller.api.status import CompletionType, ContainerEnd, PodEnd, TaskCompletion
from frameworkcontroller.core.clock import EARLIEST

W = TypeVar("W", bound=Wire)

_QUIET: Final = re2.Options()
_QUIET.log_errors = False  # RE2 would print a line of its own
_IN_SETTINGS: Final = {name: f"{name}Regex" for name in ("name", "reason", "message")} | {
    name: f"{name}Range" for name in ("signal", "code")
}
Int32: TypeAlias = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
END_BYTES: Final = 64
"""Of a terminated container as JSON, beside its texts."""
KEPT_CONTAINERS: Final = 4
"""Of a Pod whose end is shortened."""


class Regex:
    """A user's regular expression in RE2 syntax, found anywhere in a text: linear time, as Pods choose the text.

    Raises:
        ValueError: with RE2's reason.
    """

    def __init__(self, source: str) -> None:
        self._source = source
        try:
            self._compiled = re2.compile(source, _QUIET)
        except re2.error as error:
            # The library reports the reason as bytes.
            why = error.args[0].decode(errors="replace") if isinstance(error.args[0], bytes) else str(error)
            raise ValueError(f"{source!r} is not a regular expression in RE2 syntax: {why}") from error

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Regex) and other._source == self._source

    def __hash__(self) -> int:
        return hash(self._source)

    def find(self, text: str) -> str | None:
        """Return the text that matched, or None."""
        return _found(self._compiled, text)


@functools.lru_cache(maxsize=64)
def _found(compiled: Any, text: str) -> str | None:
    """All containers of a Pod, and the Pods that end together, often say the same."""
    match = compiled.search(text)
    return None if match is None else str(match.group(0))


class _Pattern(Struct, frozen=True, forbid_unknown_fields=True):
    """Base of what the settings say of failed Pods, as they say it."""


class Range(_Pattern, frozen=True):
    """An inclusive range of integers, either side open."""

    min: Int32 | None = None
    max: Int32 | None = None

    def __post_init__(self) -> None:
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"min {self.min} is greater than max {self.max}")

    def __contains__(self, value: int) -> bool:
        return (self.min is None or self.min <= value) and (self.max is None or value <= self.max)


class _TextPattern(_Pattern, frozen=True, rename=_IN_SETTINGS):
    name: Regex | None = None
    reason: Regex | None = None
    message: Regex | None = None


class ContainerPattern(_TextPattern, frozen=True):
    """Matches a terminated container if all given fields do; with only a name, also one that never ran."""

    signal: Range | None = None
    code: Range | None = None


class PodPattern(_TextPattern, frozen=True):
    """Matches a Pod if all given fields do; each container pattern must match some container."""

    containers: tuple[ContainerPattern, ...] = ()


@dataclass(frozen=True)
class CodeInfo:
    """One entry of the list: the code to give if any of the patterns matches."""

    code: int
    phrase: str
    type: CompletionType
    patterns: tuple[PodPattern, ...]


class Matched(Wire, frozen=True, omit_defaults=True):
    """The parts of a Pod or container that matched, for the diagnostics; what is empty is left out, but not code 0."""

    name: str = ""
    reason: str = ""
    message: str = ""
    signal: int = 0
    code: int | None = None
    containers: tuple["Matched", ...] = ()


def _container_exit(code: Code) -> CodeInfo:
    """Return the entry of an exit code; it matches any name and message, so that the diagnostics show both."""
    phrase, kind = PREDEFINED[code]
    anything = Regex("(?s).*")
    container = ContainerPattern(name=anything, message=anything, code=Range(code, code))
    return CodeInfo(code, phrase, kind, (PodPattern(containers=(container,)),))


CONTAINER_CONTRACT: Final = tuple(
    _container_exit(code)
    for code in (
        Code.CONTAINER_TRANSIENT_FAILED,
        Code.CONTAINER_TRANSIENT_CONFLICT_FAILED,
        Code.CONTAINER_PERMANENT_FAILED,
    )
)
"""Exit codes by which a container reports the kind of its failure; always matched first."""


def predefined(code: Code, diagnostics: str, pod: PodEnd | None = None) -> TaskCompletion:
    """Return a Task's completion by one of the predefined codes."""
    phrase, kind = PREDEFINED[code]
    return TaskCompletion(code=int(code), phrase=phrase, type=kind, diagnostics=diagnostics, pod=pod)


def describe(pod: Pod) -> PodEnd:
    """Return the end of a Pod as it is stored: its reason and every terminated container, init containers first."""
    return PodEnd(
        reason=pod.status.reason,
        message=pod.status.message,
        containers=tuple(end for end, _ in _ends(_all(pod))),
    )


def succeeded(pod: Pod) -> TaskCompletion:
    """Return the completion of a Task whose Pod succeeded."""
    return predefined(Code.SUCCEEDED, "Pod succeeded", describe(pod))


def failed(pod: Pod, infos: Iterable[CodeInfo]) -> TaskCompletion:
    """Return the completion of a Task whose Pod failed: the first code whose pattern matches, else the exit code."""
    end, judged = describe(pod), _judged(pod)
    ends = _ends(judged)
    by_name: dict[str, ContainerEnd | None] = dict.fromkeys(status.name for status in judged)
    by_name |= {container.name: container for container, _ in ends}
    for info in infos:
        for pattern in info.patterns:
            matched = _match_pod(pattern, pod, by_name)
            if matched is not None:
                diagnostics = f"Pod failed: PodPattern matched: {_json(matched)}"
                return TaskCompletion(
                    code=info.code, phrase=info.phrase, type=info.type, diagnostics=diagnostics, pod=end
                )
    diagnostics = f"Pod failed: PodPattern unmatched: {_json(end)}"
    failures = [(finished, container) for container, finished in ends if container.code != 0]
    if not failures:
        return predefined(Code.POD_FAILED_WITHOUT_FAILED_CONTAINER, diagnostics, end)
    last = max(failures, key=lambda failure: failure[0])[1]
    return TaskCompletion(code=last.code, phrase=UNRECOGNIZED_PHRASE, type=FAILED, diagnostics=diagnostics, pod=end)


def text_length(end: TaskCompletion | None) -> int:
    """Return how many bytes others have written into a completion, as they take more: as JSON, or in memory.

    Each container takes some, too.
    """
    if end is None:
        return 0
    containers = () if end.pod is None else end.pod.containers
    texts = [] if end.pod is None else [end.pod.reason, end.pod.message]
    texts += [text for one in containers for text in (one.name, one.reason, one.message)]
    return END_BYTES * len(containers) + sum(map(_bytes_of, (end.diagnostics, *texts)))


def shortened(end: TaskCompletion, most: int) -> TaskCompletion:
    """Return the completion with at most so many characters of each text, and few containers, failed ones first.

    The containers share these characters. Of a text that takes much more as JSON, such as one of control characters,
    only an eighth of these stays.
    """
    pod = end.pod
    if pod is not None:
        kept = sorted(pod.containers, key=lambda one: one.code == 0)[:KEPT_CONTAINERS]
        each = most // max(1, len(kept))
        containers = tuple(_with_shortened(one, each, "name", "reason", "message") for one in kept)
        pod = replace(_with_shortened(pod, most, "reason", "message"), containers=containers)
    return replace(_with_shortened(end, most, "diagnostics"), pod=pod)


def _with_shortened(part: W, most: int, *texts: str) -> W:
    return replace(part, **{text: _shortened(getattr(part, text), most) for text in texts})


def _shortened(text: str, most: int) -> str:
    kept = text[:most]
    return kept if _encoded_length(kept) <= 2 * most else kept[: most // 8]


def _encoded_length(text: str) -> int:
    return len(msgspec.json.encode(text))


def _bytes_of(text: str) -> int:
    # One emoji makes all characters of a text as wide as itself, beside the same text as UTF-8.
    return _encoded_length(text) if text.isascii() else 5 * len(text)


def _all(pod: Pod) -> tuple[ContainerStatus, ...]:
    return (*pod.status.init_container_statuses, *pod.status.container_statuses)


def _judged(pod: Pod) -> tuple[ContainerStatus, ...]:
    """Return the containers that a Pod can fail by; a sidecar is stopped only after the application has ended."""
    sidecars = pod.spec.sidecars
    return tuple(status for status in _all(pod) if status.name not in sidecars)


def _ends(statuses: Iterable[ContainerStatus]) -> Sequence[tuple[ContainerEnd, datetime]]:
    """Return each terminated container with the time of its end."""
    return [
        (
            ContainerEnd(
                name=status.name, reason=end.reason, message=end.message, signal=end.signal, code=end.exit_code
            ),
            end.finished_at or EARLIEST,
        )
        for status in statuses
        if (end := status.state.terminated) is not None
    ]


def _match_pod(pattern: PodPattern, pod: Pod, ends: Mapping[str, ContainerEnd | None]) -> Matched | None:
    """Match the pattern against a Pod and the ends of its containers by name, None of one that has not ended."""
    texts = _match_texts(
        (pattern.name, pod.metadata.name), (pattern.reason, pod.status.reason), (pattern.message, pod.status.message)
    )
    if texts is None:
        return None
    containers = []
    for wanted in pattern.containers:
        matches = (_match_container(wanted, name, end) for name, end in ends.items())
        found = next((match for match in matches if match is not None), None)
        if found is None:
            return None
        if found != Matched():
            containers.append(found)
    name, reason, message = texts
    return Matched(name, reason, message, containers=tuple(containers))


def _match_container(pattern: ContainerPattern, name: str, end: ContainerEnd | None) -> Matched | None:
    if end is None:
        if pattern.reason or pattern.message or pattern.signal or pattern.code:
            return None
        end = ContainerEnd(name=name, code=0)
    # Numbers first: most patterns name a code, and match any name and message.
    for numbers, value in ((pattern.signal, end.signal), (pattern.code, end.code)):
        if numbers is not None and value not in numbers:
            return None
    texts = _match_texts((pattern.reason, end.reason), (pattern.name, name), (pattern.message, end.message))
    if texts is None:
        return None
    reason, matched_name, message = texts
    return Matched(
        matched_name,
        reason,
        message,
        signal=0 if pattern.signal is None else end.signal,
        code=None if pattern.code is None else end.code,
    )


def _match_texts(*pairs: tuple[Regex | None, str]) -> list[str] | None:
    """Return the matched texts in order, "" where there is no pattern; None if a pattern does not match."""
    texts = []
    for regex, text in pairs:
        found = "" if regex is None else regex.find(text)
        if found is None:
            return None
        texts.append(found)
    return texts


def _json(value: Wire) -> str:
    return msgspec.json.encode(value).decode()
