"""Keeps Pods away from nodes whose Tasks have kept their gang waiting (docs/reference/progress.md, section 4)."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

HOSTNAME: Final = "kubernetes.io/hostname"
NAME: Final = "metadata.name"
EMPTY: Final = b'""'
LISTS: Final = ("matchFields", "matchExpressions")
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
MAX_BYTES: Final = 64 * 1024
"""Of an affinity with the nodes in each of its terms, of which a template of a mebibyte may have 100,000."""
TOO_LARGE: Final = (
    f"spec.affinity would have more than {MAX_BYTES} bytes with these nodes in each term of its node affinity, "
    "so the Pod may go to them: use fewer nodeSelectorTerms"
)


def avoid(spec: dict[str, Raw], nodes: Sequence[str]) -> str:
    """Let a Pod of this spec go to no such node, unless the user says to which node it goes, or it would be too large.

    It returns what is too large, "" for nothing. What is no affinity stays as it is: the API server says what is wrong
    with it.
    """
    size = memoryview(spec.get("affinity", EMPTY)).nbytes
    if size > MAX_BYTES:
        return TOO_LARGE
    affinity = _object(spec.get("affinity"))
    of_nodes = None if affinity is None else _object(affinity.get("nodeAffinity"))
    required = None if of_nodes is None else _object(of_nodes.get(REQUIRED))
    terms = None if required is None else required.get("nodeSelectorTerms") or []
    if affinity is None or of_nodes is None or required is None or not isinstance(terms, list):
        return ""
    if not all(isinstance(term, dict) for term in terms) or bytes(spec.get("nodeName", EMPTY)) not in {EMPTY, b"null"}:
        return ""
    if any(term.get(key) and not isinstance(term[key], list) for term in terms for key in LISTS):
        return ""
    if HOSTNAME in (_object(spec.get("nodeSelector")) or {}) or any(map(_pins, terms)):
        return ""
    # Each takes one value, and a term without a requirement is one that no node meets.
    others = [{"key": NAME, "operator": "NotIn", "values": [node]} for node in nodes]
    can_be_met = [term for term in terms if any(term.values())]
    if size + len(can_be_met) * len(msgspec.json.encode(others)) > MAX_BYTES:
        return TOO_LARGE
    for term in can_be_met:
        term["matchFields"] = [*(term.get("matchFields") or ()), *others]
    wanted = {"nodeSelectorTerms": terms or [{"matchFields": others}]}
    spec["affinity"] = Raw(msgspec.json.encode(affinity | {"nodeAffinity": of_nodes | {REQUIRED: required | wanted}}))
    return ""


def _object(value: Any) -> dict[str, Any] | None:
    """Return an object, decoded; {} of what is not there, None of what is none."""
    found = msgspec.json.decode(value) if isinstance(value, Raw) else value
    return {} if found is None else found if isinstance(found, dict) else None


def _pins(term: dict[str, Any]) -> bool:
    """Report whether the term names the nodes that meet it."""
    return any(
        isinstance(one, dict) and one.get("operator") == "In" and str(one.get("key")) in {NAME, HOSTNAME}
        for key in LISTS
        for one in term.get(key) or ()
    )
