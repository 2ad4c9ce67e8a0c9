"""The CEL rules of the definition, for an object that is created, each as a function of the value that it is about.

A test fails if the definition has a rule that is not here, and the API server is asked whether both agree.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from frameworkcontroller.api import names
from frameworkcontroller.api.pod_group import KINDS
from frameworkcontroller.api.spec import MAX_ROLES, MAX_SECONDS, MAX_TASKS


def _roles(spec: Any) -> list[Any]:
    roles = spec.get("taskRoles")
    return roles if isinstance(roles, list) else []


def _few_tasks(spec: Any) -> bool:
    numbers = [role.get("taskNumber") for role in _roles(spec) if isinstance(role, dict)]
    return sum(number for number in numbers if isinstance(number, int)) <= MAX_TASKS


def _is_named(manifest: Any) -> bool:
    metadata = manifest.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return isinstance(name, str) and re.search(names.NAME_PATTERN, name) is not None


def _is_known_to_groups(field: str) -> Callable[[Any], bool]:
    lacking = {scheduler for scheduler, kind in KINDS.items() if field in kind.lacks}
    return lambda asked: not asked.get(field) or asked.get("scheduler") not in lacking


RULES: Final[Mapping[str, Callable[[Any], bool]]] = {
    f"self.metadata.name.matches('{names.NAME_PATTERN}')": _is_named,
    (
        f"!has(self.taskRoles) || self.taskRoles.map(role, role.taskNumber).sum() <= {MAX_TASKS} || "
        "oldSelf.hasValue() && has(oldSelf.value().taskRoles) && self.taskRoles.map(role, role.taskNumber).sum() <= "
        "oldSelf.value().taskRoles.map(role, role.taskNumber).sum()"
    ): _few_tasks,
    (
        f"!has(self.taskRoles) || self.taskRoles.size() <= {MAX_ROLES} || oldSelf.hasValue() && "
        "has(oldSelf.value().taskRoles) && self.taskRoles.size() <= oldSelf.value().taskRoles.size()"
    ): lambda spec: len(_roles(spec)) <= MAX_ROLES,
    # It is about changes.
    (
        "self.executionType == oldSelf.executionType || oldSelf.executionType == 'Create' || "
        "(oldSelf.executionType == 'Start' && self.executionType == 'Stop')"
    ): lambda _: True,
    "self.scheduler in ['kubernetes', 'none'] || self.topologyKey == ''": _is_known_to_groups("topologyKey"),
    "self.scheduler != 'coscheduling' || self.priorityClassName == ''": _is_known_to_groups("priorityClassName"),
    "self.scheduler in ['volcano', 'none'] || self.queue == ''": _is_known_to_groups("queue"),
    "self != 0 || oldSelf.orValue(1) == 0": lambda number: bool(number != 0),
    "self >= 0 || self == oldSelf.orValue(0)": lambda number: bool(number >= 0),
    f"self <= {MAX_SECONDS} || self == oldSelf.orValue(0)": lambda number: bool(number <= MAX_SECONDS),
}
