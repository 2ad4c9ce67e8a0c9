"""Clusters of a test session: its own, which end with it, or clusters that are kept between sessions.

`tests/conftest.py` starts the clusters of the fixtures with it; suites that need another cluster name it by `own_name`.

Each session starts clusters of its own, because changes to a whole cluster (a CRD, a webhook, a controller that watches
every namespace) would disturb another session. The clusters of a session that was killed are removed by the next one.
With `FRAMEWORKCONTROLLER_TEST_CLUSTER=NAME` a session uses clusters `NAME-<depth>` instead and keeps them, which saves
the start.
"""

from __future__ import annotations

import contextlib
import os
import re
from typing import TYPE_CHECKING

import pytest

import localcluster
from localcluster import Cluster, Depth, SetupError, process, settings
from localcluster.cluster import require_root
from localcluster.progress import Lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_OWN = re.compile(r"pytest-(?P<pid>\d+)-(?P<started>[0-9a-f]+)-[a-z]+")
_SUFFIX = {Depth.CONTROL_PLANE: "cp", Depth.KWOK: "kwok", Depth.NODE: "node"}


@contextlib.contextmanager
def session_cluster(
    config: pytest.Config, depth: Depth, *, suffix: str = "", kubernetes: str | None = None
) -> Iterator[Cluster]:
    """Start a cluster for a session and remove it at the end. A cluster that cannot start is an error, never a skip.

    Args:
        config: The session's configuration; capture is off while the cluster starts, so that a long build is shown.
        depth: The depth of the cluster.
        suffix: The end of its name, for a suite that shares its cluster with no other; default: that of the depth.
        kubernetes: Its version; default: that of all clusters.
    """
    kept = os.environ.get("FRAMEWORKCONTROLLER_TEST_CLUSTER")
    end = suffix or _SUFFIX[depth]
    name = f"{kept}-{end}" if kept else own_name(depth).removesuffix(_SUFFIX[depth]) + end
    with _uncaptured(config):
        remove_abandoned()
        try:
            cluster = localcluster.up(name, depth, kubernetes=kubernetes, progress=Lines(quiet_seconds=10))
        except BaseException:
            # Also after Ctrl-C during a long build.
            if not kept:
                localcluster.down(name)
            raise
    try:
        yield cluster
    finally:
        if not kept:
            localcluster.down(name)


def require_node() -> None:
    """Skip the test where this machine does not allow a real node; fail where a cluster is required (CI)."""
    try:
        require_root()
    except SetupError as error:
        if is_required():
            raise
        pytest.skip(str(error))


def is_required(environ: Mapping[str, str] = os.environ) -> bool:
    """Report whether a cluster that this machine does not allow is a failure rather than a skip."""
    return environ.get("CI", "") in {"true", "1"} or environ.get("FRAMEWORKCONTROLLER_REQUIRE_CLUSTER") == "1"


def own_name(depth: Depth) -> str:
    """Return the name of this session's cluster; it identifies the session, so that others see whether it is alive."""
    identity = process.identify(os.getpid())
    assert identity is not None
    return f"pytest-{identity.pid}-{identity.started:x}-{_SUFFIX[depth]}"


def remove_abandoned() -> None:
    """Remove the clusters of sessions that ended without doing so."""
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
