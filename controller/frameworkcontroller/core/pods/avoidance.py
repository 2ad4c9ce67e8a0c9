"""Keeps Pods away from nodes whose Tasks have kept their gang waiting (docs/reference/progress.md, section 4)."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

HOSTNAME: Final = "kubernetes.io/hostname"
NAME: Final = "metadata.name"
NULL: Final = Raw(b"null")
NOTHING: Final = frozenset({b"null", b'""', b"[]", b"{}"})
LISTS: Final = ("matchFields", "matchExpressions")
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
MAX_BYTES: Final = 64 * 1024
"""Of an affinity with the nodes in each of its terms, of which a template of a mebibyte may have 100,000."""
TOO_LARGE: Final = (
    f"spec.affinity would have more than {MAX_BYTES} bytes with these nodes in each term of its node affinity, "
    "so the Pod may go to them: use fewer nodeSelectorTerms"
)


class _Selector(Struct):
    hostname: Raw | UnsetType = field(name=HOSTNAME, default=UNSET)


class _Requirement(Struct):
    key: str | None = None
    operator: str | None = None


# Nothing that a template says is decoded as it is: a number such as 1e+308 takes msgspec 12 us.
_FIELDS: Final = msgspec.json.Decoder(dict[str, Raw] | None)
_SELECTOR: Final = msgspec.json.Decoder(_Selector | None)
_TERMS: Final = msgspec.json.Decoder(list[dict[str, Raw]] | None)
_LIST: Final = msgspec.json.Decoder(list[Raw] | None)
_REQUIREMENTS: Final = msgspec.json.Decoder(list[_Requirement] | None)


def avoid(spec: dict[str, Raw], nodes: Sequence[str]) -> str:
    """Let a Pod of this spec go to no such node, unless the user says to which node it goes, or it would be too large.

    It returns what is too large, "" for nothing. What is no affinity stays as it is: the API server says what is wrong
    with it.
    """
    size = memoryview(spec.get("affinity", b"")).nbytes
    if size > MAX_BYTES:
        return TOO_LARGE
    try:
        affinity = _FIELDS.decode(spec.get("affinity", NULL)) or {}
        of_nodes = _FIELDS.decode(affinity.get("nodeAffinity", NULL)) or {}
        required = _FIELDS.decode(of_nodes.get(REQUIRED, NULL)) or {}
        terms = _TERMS.decode(required.get("nodeSelectorTerms", NULL)) or []
        asked = [one for term in terms for key in LISTS for one in _REQUIREMENTS.decode(term.get(key, NULL)) or ()]
        selector = _SELECTOR.decode(spec.get("nodeSelector", NULL)) or _Selector()
    except msgspec.ValidationError:
        return ""
    is_pinned = selector.hostname is not UNSET or bytes(spec.get("nodeName", NULL)) not in NOTHING
    if is_pinned or any(one.operator == "In" and one.key in {NAME, HOSTNAME} for one in asked):
        return ""
    # Each takes one value, and a term without a requirement is one that no node meets.
    others = [{"key": NAME, "operator": "NotIn", "values": [node]} for node in nodes]
    can_be_met = [term for term in terms if any(bytes(value) not in NOTHING for value in term.values())]
    if size + len(can_be_met) * len(msgspec.json.encode(others)) > MAX_BYTES:
        return TOO_LARGE
    for term in can_be_met:
        fields: list[Any] = _LIST.decode(term.get("matchFields", NULL)) or []
        term["matchFields"] = Raw(msgspec.json.encode(fields + others))
    wanted = {"nodeSelectorTerms": terms or [{"matchFields": others}]}
    spec["affinity"] = Raw(msgspec.json.encode(affinity | {"nodeAffinity": of_nodes | {REQUIRED: required | wanted}}))
    return ""
