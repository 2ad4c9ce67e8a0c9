"""Which gangs restart in place, by the annotations of their Pod templates (docs/reference/restart.md, section 2)."""

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from frameworkcontroller.api import names
from frameworkcontroller.api.spec import Dependency

DEFAULT_LIMIT: Final = 10
DEFAULT_HANG_LIMIT: Final = 3
DEFAULT_PROGRESS_PORT: Final = 24817
PROGRESS_PORTS: Final = range(1024, 65536)
"""As `frameworkbarrier.settings` has it."""
MAX_LIMIT: Final = 2**31 - 1


def read_limit(roles: Iterable[tuple[str, Mapping[str, str]]]) -> tuple[int | None, str]:
    """Return how often exits may restart a gang in one Framework attempt, and what is wrong with it, "" if nothing is.

    The limit is 0 if there is none, and None if the gang does not restart in place. Its TaskRoles are those whose Pods
    have a barrier, each with the annotations of its template.
    """
    asked: dict[str, int | None] = {}
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
        asked[name] = int(limit)
    if len(set(asked.values())) > 1:
        named = "; ".join(f"{name}: {_described(one)}" for name, one in list(asked.items())[:10])
        text = (
            "the TaskRoles whose Pods have a barrier must ask for the same restart, as they are one gang "
            f"({named}): give all of them the annotations {names.RESTART_ANNOTATION} and "
            f"{names.RESTART_LIMIT_ANNOTATION}, or none"
        )
        return None, text
    return next(iter(asked.values()), None), ""


def read_starts(roles: Iterable[tuple[str, Collection[Dependency]]]) -> str:
    """Return what is wrong with a gang that restarts in place whose TaskRoles do not begin together, "" if they do.

    Those that run would have to start again as soon as the others begin. Each role comes with what it waits for.
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


def hang_limit(annotations: Mapping[str, str]) -> int | None:
    """Return after how many hangs in a row the Framework ends, 0 for no limit; None if hangs restart nothing.

    The webhook has checked the texts (docs/reference/injector.md). Where it has not, a wrong limit is the default.
    """
    if names.PROGRESS_ANNOTATION not in annotations or annotations.get(names.HANG_ANNOTATION, "").strip() != "restart":
        return None
    limit = annotations.get(names.HANG_LIMIT_ANNOTATION, "").strip()
    is_number = re.fullmatch("[0-9]{1,10}", limit) and int(limit) <= MAX_LIMIT
    return int(limit) if is_number else DEFAULT_HANG_LIMIT


def progress_port(annotations: Mapping[str, str]) -> int:
    """Return where the sidecars of a TaskRole say how far their applications are; a wrong port is the default."""
    text = annotations.get(names.PROGRESS_PORT_ANNOTATION, "").strip()
    port = int(text) if re.fullmatch("[0-9]{4,5}", text) else 0
    return port if port in PROGRESS_PORTS else DEFAULT_PROGRESS_PORT


def _described(limit: int | None) -> str:
    return "none" if limit is None else f"{names.IN_PLACE}, limit {limit}"
