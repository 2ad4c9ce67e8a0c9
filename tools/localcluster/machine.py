"""Facts about this machine that several modules need."""

from __future__ import annotations

import platform

_GO_NAMES = {"x86_64": "amd64", "aarch64": "arm64"}

UNSHARED = ("unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc")
"""The start of a command that runs in mount and PID namespaces of its own, and so leaves neither mount nor process."""


def architecture() -> str:
    """Return the processor's architecture as Go and image registries name it: `amd64`, `arm64` ..."""
    machine = platform.machine()
    return _GO_NAMES.get(machine, machine)
