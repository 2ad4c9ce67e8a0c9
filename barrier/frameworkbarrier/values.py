"""What the text of a setting may be: one validator for each kind of value.

The table in `frameworkbarrier.settings` names the validator of each setting; the injector checks its annotations with
them. A validator takes text without surrounding white space and returns the value, or raises a `BadValueError`. Its
time is linear in the length of the text, because users of the injector are not trusted.
"""

import re
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from frameworkbarrier.text import is_dns_name, is_role_name

if TYPE_CHECKING:
    from frameworkbarrier.presets import model as known

# Where a Pod's index is, in labels and then in annotations.
INDEX_LABELS = (
    "batch.kubernetes.io/job-completion-index",
    # Before the next: Pods of a LeaderWorkerSet belong to StatefulSets too, whose index of a leader is its group's.
    "leaderworkerset.sigs.k8s.io/worker-index",
    "apps.kubernetes.io/pod-index",
)
DNS_LABEL = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
DNS_SUBDOMAIN = rf"{DNS_LABEL}(?:\.{DNS_LABEL})*"
_LABEL_NAME = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_LABEL_KEY = rf"(?:{DNS_SUBDOMAIN}/)?{_LABEL_NAME}"
_LABEL_KEY_LIMIT = 253 + 1 + 63
# A selector, between whose words and signs is one space at most. Values may be empty. What was read as a requirement is
# not read in another way again (`?>`).
_WORD = r"[-A-Za-z0-9_./]"
_KEY = rf"(?!{_WORD}{{{_LABEL_KEY_LIMIT + 1}}}){_LABEL_KEY}(?!{_WORD})"
_VALUES = rf"\((?: ?,| ?{_LABEL_NAME}(?= ?[,)]))* ?\)"
_REQUIREMENT = rf"(?>! ?{_KEY}|{_KEY}(?: ?(?:==|!=|=) ?(?:{_LABEL_NAME})?| (?:not)?in ?{_VALUES})?)"
_SELECTOR = rf"{_REQUIREMENT}(?: ?, ?{_REQUIREMENT})*"
_SELECTOR_LIMIT = 4096
_PATH_LIMIT = 512
_UID_LIMIT = 128
MAX_SLOTS = 999_999
_TF_JOBS = ("chief", "master", "worker", "ps", "evaluator")
# What torchrun accepts instead of a number.
_NPROC_WORDS = ("auto", "cpu", "gpu")


class BadValueError(ValueError):
    """The text is not a value of the setting; the message completes "must be ..."."""


def as_text(value: Any) -> str:
    """Write a value in its shortest form, from which its validator reads the same value."""
    if isinstance(value, Mapping):
        return ",".join(f"{role}={number}" if role else str(number) for role, number in value.items())
    return ",".join(value) if isinstance(value, tuple) else str(value)


def fitting(fits: Callable[[str], object], expected: str) -> Callable[[str], str]:
    """Accept text that fits; `expected` describes it."""

    def read(value: str) -> str:
        if not fits(value):
            raise BadValueError(expected)
        return value

    return read


def list_of(fits: Callable[[str], object], expected: str) -> Callable[[str], tuple[str, ...]]:
    """Accept a list, separated by commas, of items that fit, each once."""

    def read(value: str) -> tuple[str, ...]:
        found = items(value, expected)
        if not all(map(fits, found)):
            raise BadValueError(expected)
        return found

    return read


def one_of(*choices: str) -> Callable[[str], str]:
    """Accept one of these words."""
    return fitting(choices.__contains__, f"one of {', '.join(choices)}")


def some_of(*choices: str) -> Callable[[str], tuple[str, ...]]:
    """Accept one or several of these words, separated by commas, each once."""
    return list_of(choices.__contains__, f"one or several of {', '.join(choices)}, separated by commas")


def whole(low: int, high: int) -> Callable[[str], int]:
    """Accept a whole number from `low` to `high`."""

    def read(value: str) -> int:
        if not re.fullmatch(r"[0-9]{1,10}", value) or not low <= int(value) <= high:
            raise BadValueError(f"a whole number from {low} to {high}")
        return int(value)

    return read


def matching(pattern: str, expected: str, limit: int) -> Callable[[str], str]:
    """Accept text of at most `limit` characters that matches the regular expression; `expected` describes it."""
    return fitting(lambda value: len(value) <= limit and re.fullmatch(pattern, value), expected)


def folder(value: str) -> str:
    """Accept an absolute path of characters that need no quotes anywhere; a slash at its end is left out."""
    path = value.removesuffix("/")
    if len(value) > _PATH_LIMIT or not re.fullmatch(r"(?:/(?!\.\.?(?:/|\Z))[A-Za-z0-9._-]+)+", path):
        raise BadValueError("an absolute path without . and .., of letters, digits and the characters . _ - /")
    return path


def items(value: str, expected: str) -> tuple[str, ...]:
    """Split a list at its commas, without white space around items; the caller checks these.

    Raises:
        BadValueError: an item is repeated; `expected` describes the list.
    """
    found = tuple(item.strip() for item in value.split(","))
    if len(found) != len(set(found)):
        raise BadValueError(f"{expected}, without repetition")
    return found


def numbers_by_role(example: str, low: int, high: int) -> Callable[[str], Mapping[str, int]]:
    """Accept a list of roles, each with a whole number from `low` to `high`."""
    expected = f"a list as {example}, numbers from {low} to {high}"

    def read(value: str) -> Mapping[str, int]:
        numbers: dict[str, int] = {}
        for item in items(value, expected):
            role, _, number = item.partition("=")
            if not is_role_name(role) or not re.fullmatch(r"[0-9]{1,6}", number) or not low <= int(number) <= high:
                raise BadValueError(expected)
            if role in numbers:
                raise BadValueError(f"{expected}, each role once")
            numbers[role] = int(number)
        return numbers

    return read


def slots(value: str) -> Mapping[str, int]:
    """Accept one number of slots for all roles, returned under the key `""`, or one number for each role."""
    try:
        return {"": whole(1, MAX_SLOTS)(value)}
    except BadValueError as fault:
        expected = str(fault)
    try:
        return numbers_by_role("launcher=0,worker=8", 0, MAX_SLOTS)(value)
    except BadValueError as fault:
        raise BadValueError(f"{expected}, or {fault}") from None


def jobs_by_role(value: str) -> Mapping[str, str]:
    """Accept a list of roles, each with what it is to TensorFlow; each job belongs to one role only."""
    expected = f"a list as trainer=worker,server=ps, of {', '.join(_TF_JOBS)}, each role and each job once"
    jobs: dict[str, str] = {}
    for item in items(value, expected):
        name, _, job = item.partition("=")
        if not is_role_name(name) or job not in _TF_JOBS or name in jobs or job in jobs.values():
            raise BadValueError(expected)
        jobs[name] = job
    return jobs


def processes(value: str) -> str:
    """Accept a number of processes, or a word by which torchrun finds it."""
    if value not in _NPROC_WORDS and (not re.fullmatch(r"[1-9][0-9]{0,8}", value) or int(value) > MAX_SLOTS):
        raise BadValueError(f"a whole number from 1 to {MAX_SLOTS}, or one of {', '.join(_NPROC_WORDS)}")
    return value


def bounds(value: str) -> str:
    """Accept two whole numbers, the least and the most, as `2:4`; returned in this form."""
    found = re.fullmatch(r"0*([1-9][0-9]{0,8}):0*([1-9][0-9]{0,8})", value)
    if found is None or not int(found[1]) <= int(found[2]) <= MAX_SLOTS:
        raise BadValueError(f"two whole numbers like 2:4, from 1 to {MAX_SLOTS}, the greater one last")
    return f"{found[1]}:{found[2]}"


roles = list_of(is_role_name, "names of roles, separated by commas")
role = fitting(is_role_name, "the name of a role: letters, digits, '-', '_' and '.', at most 63")
dns_name = fitting(is_dns_name, "the name of a Kubernetes object: lower-case letters, digits, '-' and '.', at most 253")
# That of an object of Kubernetes, which is compared only. To compile a regular expression would take longer.
uid = fitting(
    lambda value: len(value) <= _UID_LIMIT and value.isascii() and value.replace("-", "0").isalnum(),
    "a UID: letters, digits and '-', at most 128",
)


def address(value: str) -> str:
    """Accept the address of a server; returned without a slash at the end."""
    if not re.fullmatch(r"https?://[^/?#@\s]+/?", value):
        raise BadValueError("like https://host:port")
    return value.rstrip("/")


label_key = matching(_LABEL_KEY, "the key of a label", _LABEL_KEY_LIMIT)
_of_selector = matching(_SELECTOR, "a label selector, as app=trainer,tier!=test or job in (a,b)", _SELECTOR_LIMIT)


def selector(value: str) -> str:
    """Accept a label selector; returned with each run of white space as one space.

    Source: the grammar of `labels.Parse` of Kubernetes, without `<` and `>`.
    """
    return _of_selector(" ".join(value.split()))


presets = list_of(
    lambda name: re.fullmatch(DNS_LABEL, name), "names of presets like pytorch,mpi, separated by commas"
)  # `check_presets` says whether there are such presets


def check_presets(chosen: Collection[str], own: "known.Presets") -> None:
    """Check that there are such presets, in this version or among the operator's own.

    Raises:
        BadValueError: there is no such preset; names those that there are.
    """
    if not chosen:
        return
    from frameworkbarrier.presets import model as known

    if not set(chosen) <= set(known.names(own)):
        raise BadValueError(f"one or more of {', '.join(known.in_order(own))}, separated by commas")


def definitions(value: str) -> "known.Presets":
    """Accept definitions of presets as the injector writes them."""
    from frameworkbarrier.presets import model as known

    try:
        return known.decode_all(value)
    except known.PresetError as fault:
        raise BadValueError(f"definitions of presets, but {fault}") from fault
