"""The settings that decisions depend on (docs/reference/framework-api.md, section 11)."""

from dataclasses import dataclass

from frameworkcontroller.api.pod_group import GangScheduling
from frameworkcontroller.core.policies.classification import CodeInfo


@dataclass(frozen=True)
class CoreConfig:
    """What the core needs of the controller's settings; their defaults are the business of the engine."""

    object_local_cache_creation_timeout_sec: int
    framework_completed_retain_sec: int
    framework_min_retry_delay_sec: int
    framework_max_retry_delay_sec: int
    grant_roster_access: bool
    crash_loop_pause: bool
    kueue: bool
    """Whether Kueue queues Frameworks that name a queue."""
    kueue_manages_all: bool
    """Whether Frameworks that name none wait until they do."""
    gang_scheduling: GangScheduling
    """In which groups a scheduler places the Pods of a Framework that does not say it."""
    group_schedulers: tuple[str, ...]
    """Those whose groups may be used."""
    rank_topology: bool
    """Whether ranks follow the topology of nodes where a Framework asks for it."""
    ask_progress: bool
    """Whether sidecars are asked how far their gangs are."""
    history: bool
    """Whether an archive keeps what has run: last states and logs wait for it."""
    codes: tuple[CodeInfo, ...]
    """Of failed Pods, in the order in which they are tried."""
