"""The settings that decisions depend on (source: the Framework API, section 11)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .classify import CONTAINER_CONTRACT

if TYPE_CHECKING:
    from .classify import CodeInfo


@dataclass(frozen=True)
class CoreConfig:
    """All times are in seconds."""

    object_local_cache_creation_timeout_sec: int = 300
    framework_completed_retain_sec: int = 2_592_000
    framework_min_retry_delay_sec: int = 60
    framework_max_retry_delay_sec: int = 900
    grant_roster_access: bool = True
    codes: tuple[CodeInfo, ...] = CONTAINER_CONTRACT
