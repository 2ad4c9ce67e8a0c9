"""The configuration file, ``frameworkcontroller.yaml``: the keys of the Framework API, section 11, and a few of ours.

A key that is not known, or a value that is not valid, stops the start with one line that names it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
import yaml
from msgspec import Meta

from frameworkcontroller.core.config import CoreConfig

if TYPE_CHECKING:
    from pathlib import Path

Seconds = Annotated[int, Meta(ge=0)]


class SettingsError(ValueError):
    """The configuration is not usable; one sentence that names the key."""


class Settings(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Times are in seconds."""

    kube_api_server_address: str | None = None
    kube_config_file_path: str | None = None
    large_framework_compression: bool = True
    object_local_cache_creation_timeout_sec: Annotated[int, Meta(ge=60)] = 300
    framework_completed_retain_sec: Seconds = 2_592_000
    framework_min_retry_delay_sec_for_transient_conflict_failed: Seconds = 60
    framework_max_retry_delay_sec_for_transient_conflict_failed: Seconds = 900
    # Ours.
    namespace: str = ""
    grant_roster_access: bool = True
    concurrent_requests: Annotated[int, Meta(ge=1, le=1000)] = 64

    @property
    def core(self) -> CoreConfig:
        """What decisions depend on."""
        return CoreConfig(
            object_local_cache_creation_timeout_sec=self.object_local_cache_creation_timeout_sec,
            framework_completed_retain_sec=self.framework_completed_retain_sec,
            framework_min_retry_delay_sec=self.framework_min_retry_delay_sec_for_transient_conflict_failed,
            framework_max_retry_delay_sec=self.framework_max_retry_delay_sec_for_transient_conflict_failed,
            grant_roster_access=self.grant_roster_access,
        )


def load_settings(path: Path | None) -> Settings:
    """Read the file; without one, the defaults.

    Raises:
        SettingsError: it cannot be read, or a key or value in it is not valid.
    """
    if path is None:
        return Settings()
    try:
        document = yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError) as error:
        reason = f"{path}: {error}".replace("\n", " ")
        raise SettingsError(reason) from error
    try:
        settings = msgspec.convert(document or {}, Settings)
    except msgspec.ValidationError as error:
        reason = f"{path}: {error}"
        raise SettingsError(reason) from error
    low = settings.framework_min_retry_delay_sec_for_transient_conflict_failed
    high = settings.framework_max_retry_delay_sec_for_transient_conflict_failed
    if low > high:
        reason = (
            f"{path}: frameworkMinRetryDelaySecForTransientConflictFailed {low} must not be greater than "
            f"frameworkMaxRetryDelaySecForTransientConflictFailed {high}"
        )
        raise SettingsError(reason)
    return settings
