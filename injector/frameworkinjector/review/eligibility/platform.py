"""Whether a Pod is for Windows, where the barrier does not run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from frameworkinjector.review.pod import NodeSelectorTerm, Spec

OS_LABELS: Final = ("kubernetes.io/os", "beta.kubernetes.io/os")
# The kubelet of Windows sets it, no other does.
BUILD_LABEL: Final = "node.kubernetes.io/windows-build"
WINDOWS: Final = "windows"


def needs_windows(spec: Spec) -> bool:
    """Report whether the Pod says that it is for Windows, or can be scheduled to nodes with Windows only."""
    if spec.os is not None and spec.os.name == WINDOWS:
        return True
    selected = spec.node_selector or {}
    if BUILD_LABEL in selected or WINDOWS in map(selected.get, OS_LABELS):
        return True
    affinity = spec.affinity.node_affinity if spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    # A node must match one of the terms; an empty one matches no node.
    terms = [one for one in (required.node_selector_terms if required else None) or () if not one.is_empty]
    return bool(terms) and all(map(_term_needs_windows, terms))


def _term_needs_windows(term: NodeSelectorTerm) -> bool:
    for one in term.match_expressions or ():
        values = set(one.values or ())
        if one.key == BUILD_LABEL and one.operator in {"In", "Exists", "Gt", "Lt"}:
            return True
        if one.key in OS_LABELS and one.operator == "In" and values == {WINDOWS}:
            return True
        if one.key in OS_LABELS and one.operator == "NotIn" and "linux" in values:
            return True
    return False
