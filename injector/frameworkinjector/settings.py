"""A Pod's annotations, read into frozen settings: each has a validator of its own, and an unknown one is refused.

Source of the names and meanings: the injector's specification, section 1. What is only handed on to the barrier is
checked all the same, so that a typing error is refused at creation and not found in the log of a Pod that waits.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, TypeVar

from frameworkinjector import names
from frameworkinjector.errors import RefusalError
from frameworkinjector.presets import Preset
from frameworkinjector.reasons import Reason, shown, verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MAX_TIMEOUT_SECONDS: Final = 30 * 24 * 3600
MAX_PORT: Final = 65535
MAX_COUNT: Final = 10_000
MAX_SLOTS: Final = 999_999
# What torchrun itself takes instead of a number.
_NPROC_WORDS: Final = ("auto", "cpu", "gpu")

_DNS_LABEL: Final = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_DNS_SUBDOMAIN: Final = rf"{_DNS_LABEL}(?:\.{_DNS_LABEL})*"
_LABEL_NAME: Final = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_LABEL_KEY: Final = rf"(?:{_DNS_SUBDOMAIN}/)?{_LABEL_NAME}"
_LABEL_VALUE: Final = rf"(?:{_LABEL_NAME})?"
# Matched after runs of white space became one space: two unbounded repetitions side by side take quadratic time.
_LABEL_SET: Final = rf"\( ?{_LABEL_VALUE} ?(?:, ?{_LABEL_VALUE} ?)*\)"
_REQUIREMENT: Final = "|".join(
    (
        rf"(?:! ?{_LABEL_KEY}",
        rf"{_LABEL_KEY} ?(?:==|=|!=) ?{_LABEL_VALUE}",
        rf"{_LABEL_KEY} (?:in|notin) ?{_LABEL_SET}",
        rf"{_LABEL_KEY})",
    )
)
_SELECTOR: Final = re.compile(rf"{_REQUIREMENT} ?(?:, ?{_REQUIREMENT} ?)*")
# Host and path as the registry API defines them, then a tag and a digest; its business is typing errors, not policy.
_IMAGE: Final = re.compile(
    r"[A-Za-z0-9](?:[-A-Za-z0-9._]*[A-Za-z0-9])?(?::[0-9]{1,5})?(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*"
    r"(?::[A-Za-z0-9_][-A-Za-z0-9_.]{0,127})?(?:@[a-z0-9]+:[a-f0-9]{32,128})?"
)


class Mode(StrEnum):
    """How the barrier runs: as an init container that ends, or as a native sidecar that keeps its files true."""

    INIT = "init"
    SIDECAR = "sidecar"


class WaitFor(StrEnum):
    """What makes a peer present: its address, or its barrier running."""

    IP = "ip"
    ARRIVED = "arrived"


class Delivery(StrEnum):
    """How the variables reach the application."""

    AUTO = "auto"
    FILE = "file"
    WRAP = "wrap"
    NONE = "none"


class Hosts(StrEnum):
    """Whether the application's /etc/hosts is the barrier's."""

    MOUNT = "mount"
    NONE = "none"


class LogFormat(StrEnum):
    """How the barrier logs."""

    TEXT = "text"
    JSON = "json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a Pod asks for; None, "" and () mean that it did not say."""

    preset: tuple[Preset, ...] = ()
    mode: Mode = Mode.INIT
    wait_for: WaitFor | None = None
    timeout: int | None = None
    env: Delivery = Delivery.AUTO
    hosts: Hosts | None = None
    ports: tuple[tuple[str, int], ...] = ()
    containers: tuple[str, ...] = ()
    selector: str = ""
    roles: tuple[tuple[str, int], ...] = ()
    role_label: str = ""
    slots: str = ""
    nproc_per_node: str = ""
    template: str = ""
    image: str = ""
    log_format: LogFormat | None = None


class _BadValueError(ValueError):
    """A value that a validator does not accept; the text completes "must be ..."."""


_E = TypeVar("_E", bound=StrEnum)


def _one_of(kind: type[_E]) -> Callable[[str], _E]:
    def read(text: str) -> _E:
        try:
            return kind(text.strip())
        except ValueError:
            raise _BadValueError(f"one of {', '.join(kind)}") from None

    return read


def _whole(low: int, high: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        stripped = text.strip()
        if not re.fullmatch(r"[0-9]{1,9}", stripped, re.ASCII) or not low <= int(stripped) <= high:
            raise _BadValueError(f"a whole number from {low} to {high}")
        return int(stripped)

    return read


def _matching(pattern: re.Pattern[str], expected: str, longest: int) -> Callable[[str], str]:
    def read(text: str) -> str:
        stripped = text.strip()
        if len(stripped) > longest or not pattern.fullmatch(stripped):
            raise _BadValueError(expected)
        return stripped

    return read


def _items(text: str, expected: str) -> list[str]:
    items = [item.strip() for item in text.split(",")]
    if len(items) != len(set(items)):
        raise _BadValueError(f"{expected}, without repetition")
    return items


def _presets(text: str) -> tuple[Preset, ...]:
    expected = f"one or more of {', '.join(Preset)}, separated by commas"
    try:
        return tuple(Preset(item) for item in _items(text, expected))
    except _BadValueError:
        raise
    except ValueError:
        raise _BadValueError(expected) from None


def _containers(text: str) -> tuple[str, ...]:
    expected = "names of containers, separated by commas"
    items = _items(text, expected)
    if not all(re.fullmatch(_DNS_LABEL, item) for item in items):
        raise _BadValueError(expected)
    return tuple(items)


def _role_numbers(example: str, low: int, high: int) -> Callable[[str], tuple[tuple[str, int], ...]]:
    expected = f"a list as {example}, numbers from {low} to {high}"

    def read(text: str) -> tuple[tuple[str, int], ...]:
        pairs: dict[str, int] = {}
        for item in _items(text, expected):
            match = re.fullmatch(rf"({_LABEL_NAME})=([0-9]{{1,6}})", item, re.ASCII)
            if match is None or not low <= int(match[2]) <= high:
                raise _BadValueError(expected)
            if match[1] in pairs:
                raise _BadValueError(f"{expected}, each role once")
            pairs[match[1]] = int(match[2])
        return tuple(pairs.items())

    return read


def _slots(text: str) -> str:
    """One number for all roles, or one for each; handed on as it is written."""
    normal = "".join(text.split())
    try:
        _whole(1, MAX_SLOTS)(normal)
    except _BadValueError:
        try:
            _role_numbers("launcher=0,worker=8", 0, MAX_SLOTS)(normal)
        except _BadValueError as error:
            raise _BadValueError(f"a whole number from 1 to {MAX_SLOTS}, or {error}") from None
    return normal


def _nproc(text: str) -> str:
    stripped = text.strip()
    if stripped in _NPROC_WORDS:
        return stripped
    try:
        return str(_whole(1, MAX_SLOTS)(stripped))
    except _BadValueError as error:
        raise _BadValueError(f"{error}, or one of {', '.join(_NPROC_WORDS)}") from None


def _selector(text: str) -> str:
    normal = " ".join(text.split())
    if len(normal) > 4096 or not _SELECTOR.fullmatch(normal):
        raise _BadValueError("a label selector, as app=trainer,tier!=test or job in (a,b)")
    return normal


_VALIDATORS: Final[Mapping[str, Callable[[str], Any]]] = {
    "preset": _presets,
    "mode": _one_of(Mode),
    "wait-for": _one_of(WaitFor),
    "timeout": _whole(1, MAX_TIMEOUT_SECONDS),
    "env": _one_of(Delivery),
    "hosts": _one_of(Hosts),
    "ports": _role_numbers("ps=2222,worker=2223", 1, MAX_PORT),
    "containers": _containers,
    "selector": _selector,
    "roles": _role_numbers("ps=2,worker=4", 0, MAX_COUNT),
    "role-label": _matching(re.compile(_LABEL_KEY), "the key of a label", 317),
    "slots": _slots,
    "nproc-per-node": _nproc,
    "template": _matching(re.compile(_DNS_SUBDOMAIN), "the name of a ConfigMap", 253),
    "image": _matching(_IMAGE, "the name of an image", 1024),
    "log-format": _one_of(LogFormat),
}
KNOWN: Final = tuple(_VALIDATORS)
# Written by the injector; a template copied from a running Pod carries it, and it is written anew.
_OURS: Final = frozenset({names.STATUS})


def parse(annotations: Mapping[str, str]) -> Settings:
    """Reads all annotations of a Pod, those under other prefixes left aside.

    Raises:
        RefusalError: An unknown annotation under the prefix, or a value that its validator does not accept.
    """
    found: dict[str, Any] = {}
    for key in sorted(annotations):
        if not key.startswith(names.PREFIX) or key in _OURS:
            continue
        validate = _VALIDATORS.get(key.removeprefix(names.PREFIX))
        if validate is None:
            raise RefusalError(verdict(Reason.UNKNOWN_ANNOTATION, annotation=shown(key, 120), known=", ".join(KNOWN)))
        try:
            found[key.removeprefix(names.PREFIX).replace("-", "_")] = validate(annotations[key])
        except _BadValueError as error:
            details = {"annotation": key, "value": shown(annotations[key]), "expected": str(error)}
            raise RefusalError(verdict(Reason.BAD_VALUE, **details)) from None
    return Settings(**found)
