"""Clusters of a test session: own ones that end with it, or one that is kept between sessions.

Each session starts clusters of its own, because what tests do to a whole cluster (a definition, a webhook, a controller
that watches every namespace) would disturb another session. A session that was killed leaves its clusters; the next
one removes them. `FRAMEWORKCONTROLLER_TEST_CLUSTER=NAME` uses clusters `NAME-<depth>` instead and lets them run, which
saves the start.
"""

from __future__ import annotations

import contextlib
import os
import re
from typing import TYPE_CHECKING

import localcluster
from localcluster import Cluster, Depth, process, settings
from localcluster.progress import Lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pytest

_OWN = re.compile(r"pytest-(?P<pid>\d+)-(?P<started>[0-9a-f]+)-[a-z]+")
_SUFFIX = {Depth.CONTROL_PLANE: "cp", Depth.KWOK: "kwok", Depth.NODE: "node"}


@contextlib.contextmanager
def session_cluster(config: pytest.Config, depth: Depth) -> Iterator[Cluster]:
    """A cluster for a session. There is no skip: whoever cannot have one gets the reason as an error.

    Args:
        config: Of the session; its capture is off while the cluster starts, so that a long build is seen.
        depth: Of the cluster.
    """
    kept = os.environ.get("FRAMEWORKCONTROLLER_TEST_CLUSTER")
    name = f"{kept}-{_SUFFIX[depth]}" if kept else own_name(depth)
    with _uncaptured(config):
        remove_abandoned()
        try:
            cluster = localcluster.up(name, depth, progress=Lines(quiet_seconds=10))
        except BaseException:
            # Also when the person who waits for a long build interrupts it.
            if not kept:
                localcluster.down(name)
            raise
    try:
        yield cluster
    finally:
        if not kept:
            localcluster.down(name)


def is_required(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether a cluster that this machine does not allow is a failure rather than a skip."""
    return environ.get("CI", "") in {"true", "1"} or environ.get("FRAMEWORKCONTROLLER_REQUIRE_CLUSTER") == "1"


def own_name(depth: Depth) -> str:
    """The name of this session's cluster: it says who owns it, so that others see whether the owner is alive."""
    identity = process.identify(os.getpid())
    assert identity is not None
    return f"pytest-{identity.pid}-{identity.started:x}-{_SUFFIX[depth]}"


def remove_abandoned() -> None:
    """Remove the clusters of sessions that ended without removing them."""
    for name in settings.names():
        found = _OWN.fullmatch(name)
        if found:
            owner = process.identify(int(found["pid"]))
            if owner is None or owner.started != int(found["started"], 16):
                localcluster.down(name)


@contextlib.contextmanager
def _uncaptured(config: pytest.Config) -> Iterator[None]:
    manager = config.pluginmanager.getplugin("capturemanager")
    with manager.global_and_fixture_disabled() if manager else contextlib.nullcontext():
        yield
