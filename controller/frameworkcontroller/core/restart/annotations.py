"""Which gangs restart in place, by the annotations of their Pod templates (docs/reference/restart.md, section 2)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from frameworkcontroller.api import names

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from frameworkcontroller.api.spec import Dependency

DEFAULT_LIMIT: Final = 10
MAX_LIMIT: Final = 2**31 - 1


class RestartTerms(Struct, frozen=True):
    """How often exits may restart the gang in one Framework attempt; 0: no limit."""

    limit: int = DEFAULT_LIMIT


def read_terms(roles: Iterable[tuple[str, Mapping[str, str]]]) -> tuple[RestartTerms | None, str]:
    """Return the terms of a gang, None if it does not restart in place, and what is wrong with it, "" if nothing is.

    Args:
        roles: the TaskRoles whose Pods have a barrier, each with the annotations of its template.
    """
    asked: dict[str, RestartTerms | None] = {}
    for name, notes in roles:
        asked[name] = None
        mode = notes.get(names.RESTART_ANNOTATION)
        if mode is None:
            continue
        where = f"TaskRole {name}: annotation"
        if mode != names.IN_PLACE:
            return None, f"{where} {names.RESTART_ANNOTATION} must be {names.IN_PLACE}"
        limit = notes.get(names.RESTART_LIMIT_ANNOTATION, str(DEFAULT_LIMIT))
        if not re.fullmatch("[0-9]{1,10}", limit) or int(limit) > MAX_LIMIT:
            return None, f"{where} {names.RESTART_LIMIT_ANNOTATION} must be a whole number from 0 to {MAX_LIMIT}"
        asked[name] = RestartTerms(int(limit))
    if len(set(asked.values())) > 1:
        named = "; ".join(f"{name}: {_described(terms)}" for name, terms in list(asked.items())[:10])
        text = (
            "the TaskRoles whose Pods have a barrier must ask for the same restart, as they are one gang "
            f"({named}): give all of them the annotations {names.RESTART_ANNOTATION} and "
            f"{names.RESTART_LIMIT_ANNOTATION}, or none"
        )
        return None, text
    return next(iter(asked.values()), None), ""


def read_starts(roles: Iterable[tuple[str, Collection[Dependency]]]) -> str:
    """Return what is wrong with a gang that restarts in place whose TaskRoles do not begin together, "" if they do.

    Those that run would have to start again as soon as the others begin.

    Args:
        roles: the TaskRoles whose Pods have a barrier, each with what it waits for.
    """
    begins = {name: frozenset(waits_for) for name, waits_for in roles}
    if len(set(begins.values())) < 2:
        return ""
    named = "; ".join(
        f"{name}: {', '.join(sorted(one.name for one in waits_for)) or 'nothing'}"
        for name, waits_for in list(begins.items())[:10]
    )
    return (
        f"the TaskRoles of a gang with {names.RESTART_ANNOTATION} must begin together, but their dependsOn differ "
        f"({named}): give all of them the same, or remove the annotation"
    )


def _described(terms: RestartTerms | None) -> str:
    return "none" if terms is None else f"{names.IN_PLACE}, limit {terms.limit}"
