"""What a run of pytest came to, from the report that `--junitxml` writes.

A test that needs a newer Kubernetes (`tests/support/versions.py`) carries a property with the reason. Any other skip is
something that the machine lacks, and counts on its own.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from xml.etree import ElementTree as ET

if TYPE_CHECKING:
    from collections.abc import Mapping
    from xml.etree.ElementTree import Element

NOT_APPLICABLE: Final = "not applicable"
"""The property of a test in the report; its value is the reason."""


@dataclass(frozen=True)
class Counts:
    """The tests of one run, each in one of these.

    Attributes:
        passed: The number of those that passed.
        failed: The names of those that failed, also in their set-up or tear-down.
        not_applicable: The number of those that need a newer Kubernetes, by the reason.
        skipped: The number of those that were skipped for another reason, by the reason.
    """

    passed: int
    failed: tuple[str, ...]
    not_applicable: Mapping[str, int]
    skipped: Mapping[str, int]


def counts(report: str) -> Counts:
    """Return what the text of a report says."""
    # A test that fails and whose tear-down fails, too, stands there twice.
    cases: dict[str, list[Element]] = {}
    for case in ET.fromstring(report).iter("testcase"):  # noqa: S314 -- pytest has just written it
        cases.setdefault(f"{case.get('classname')}::{case.get('name')}", []).append(case)
    failed = tuple(sorted(name for name, found in cases.items() if any(map(_has_failed, found))))
    left_out: Counter[str] = Counter()
    skipped: Counter[str] = Counter()
    for name in cases.keys() - set(failed):
        (case,) = cases[name]
        reason, skip = case.find(f"./properties/property[@name='{NOT_APPLICABLE}']"), case.find("skipped")
        if skip is not None and reason is not None:
            left_out[reason.get("value", "")] += 1
        elif skip is not None:
            skipped[skip.get("message", "")] += 1
    passed = len(cases) - len(failed) - left_out.total() - skipped.total()
    return Counts(passed, failed, dict(sorted(left_out.items())), dict(sorted(skipped.items())))


def _has_failed(case: Element) -> bool:
    return case.find("failure") is not None or case.find("error") is not None
