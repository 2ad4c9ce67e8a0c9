"""Clusters of test sessions: those of a killed session are removed, those of a live one are kept."""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING

import pytest

from localcluster import Depth, SetupError, binaries, cluster, settings
from localcluster.process import identify
from localcluster.supervisor import Supervisor
from testkit.waiting import eventually, eventually_async, patience
from tests.support.clusters import is_required, own_name, remove_abandoned

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def clusters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of its own."""
    monkeypatch.setenv("FRAMEWORKCONTROLLER_CACHE", str(tmp_path))
    assert binaries.cache_root() == tmp_path
    return tmp_path / "clusters"


def start_something(name: str) -> int:
    settings.create(name, Depth.CONTROL_PLANE, "1.36.3", nodes=5, controller_qps=1000)
    state = Supervisor(settings.state_folder(name))
    return state.start("etcd", ["sleep", "600"], ready=lambda: True, timeout_seconds=patience(5))


def test_clusters_of_dead_sessions_are_removed_and_others_stay(clusters: Path) -> None:
    mine, abandoned, persons = own_name("cp"), f"t-{os.getpid()}-1-cp", "somebodys"
    pids = {name: start_something(name) for name in (mine, abandoned, persons)}
    remove_abandoned()
    assert settings.names() == sorted([mine, persons])
    assert identify(pids[abandoned]) is None
    for name in (mine, persons):
        assert identify(pids[name]) is not None
        cluster.down(name)
    assert list(clusters.iterdir()) == []


def test_the_name_of_a_runs_cluster_is_valid(clusters: Path) -> None:
    assert settings.state_folder(own_name("injector-cp")).parent == clusters


def test_leftovers_without_settings_are_removed_too(clusters: Path) -> None:
    state = clusters / "remains"
    pid = Supervisor(state).start("etcd", ["sleep", "600"], ready=lambda: True, timeout_seconds=patience(5))
    found = cluster.status("remains")
    assert found is not None
    assert (found.depth, found.processes, found.ready) == (None, {"etcd": pid}, False)
    cluster.down("remains")
    assert identify(pid) is None
    assert not state.exists()


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"CI": "true"}, True),
        ({"FRAMEWORKCONTROLLER_REQUIRE_CLUSTER": "1"}, True),
        ({"CI": "false"}, False),
        ({}, False),
    ],
    ids=["in CI", "asked for", "not in CI", "at home"],
)
def test_ci_requires_what_a_machine_may_not_allow(environ: dict[str, str], expected: bool) -> None:
    assert is_required(environ) is expected


def test_without_root_a_real_node_is_refused_with_the_reason(clusters: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(SetupError, match=r"^depth node needs root"):
        cluster.up("mine", Depth.NODE)
    assert not clusters.exists()


class TestEventually:
    def test_it_returns_what_the_check_returns_when_it_holds(self) -> None:
        attempts = iter(range(10))

        def check() -> int:
            attempt = next(attempts)
            assert attempt == 3
            return attempt

        assert eventually(check, interval=0.001) == 3

    def test_it_raises_the_last_assertion(self) -> None:
        attempts = itertools.count()

        def check() -> None:
            raise AssertionError(f"attempt {min(next(attempts), 2)}")

        with pytest.raises(AssertionError, match="attempt 2"):
            eventually(check, timeout=0.2, interval=0.001)

    def test_any_other_error_ends_it_at_once(self) -> None:
        attempts: list[int] = []

        def check() -> None:
            attempts.append(1)
            raise LookupError

        with pytest.raises(LookupError):
            eventually(check, timeout=10)
        assert len(attempts) == 1

    async def test_it_waits_for_coroutines_too(self) -> None:
        attempts = iter(range(10))

        async def check() -> None:
            assert next(attempts) == 3

        await eventually_async(check, interval=0.001)
