"""The settings that decisions depend on (docs/reference/framework-api.md, section 11)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from frameworkcontroller.core.policies.classification import CodeInfo


@dataclass(frozen=True)
class CoreConfig:
    """What the core needs of the controller's settings; their defaults are the business of the engine.

    Attributes:
        object_local_cache_creation_timeout_sec: how long a created object may take to appear in the cache.
        framework_completed_retain_sec: how long a completed Framework is kept.
        framework_min_retry_delay_sec: the least delay before the retry of a conflict.
        framework_max_retry_delay_sec: the longest delay before the retry of a conflict.
        grant_roster_access: let the Pods' service accounts read the roster.
        crash_loop_pause: let Pods wait that end at once again and again (`crash_loop`).
        codes: completion codes of failed Pods, in the order in which they are tried.
    """

    object_local_cache_creation_timeout_sec: int
    framework_completed_retain_sec: int
    framework_min_retry_delay_sec: int
    framework_max_retry_delay_sec: int
    grant_roster_access: bool
    crash_loop_pause: bool
    codes: tuple[CodeInfo, ...]
