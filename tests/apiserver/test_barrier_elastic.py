"""A rescale and a retry as elastic programs see them: sidecars of a real controller's Pods on a real API server."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from testkit.waiting import eventually
from tests.barrier.cluster import account, exported, start, waiting

if TYPE_CHECKING:
    from collections.abc import Callable

    from localcluster.client import Json
    from testkit.frameworks import Frameworks
    from tests.barrier.process import Barrier
    from tests.support.kubelet import Kubelet

pytestmark = pytest.mark.apiserver

__all__ = ["account", "start"]  # fixtures


def hosts(barrier: Barrier) -> list[str]:
    """What `horovodrun --host-discovery-script` would read."""
    script = barrier.folder / "discover_hosts.sh"
    return subprocess.run([script], capture_output=True, text=True, check=True).stdout.splitlines()


def finds(barrier: Barrier, *expected: str) -> None:
    def check() -> None:
        assert hosts(barrier) == list(expected)

    eventually(check, 30)


@pytest.mark.usefixtures("controller")
def test_horovods_script_lists_the_workers_of_each_rescale_with_slots_by_their_gpus(
    frameworks: Frameworks, kubelet: Kubelet, start: Callable[..., Barrier]
) -> None:
    frameworks.create("fw", waiting("launcher", 1), waiting("worker", 2, gpus=2))
    ips = {"fw-launcher-0": "10.255.9.1", "fw-worker-0": "10.255.9.2", "fw-worker-1": "10.255.9.3"}
    found = frameworks.created(*ips)
    launcher = start(found["fw-launcher-0"], FB_MODE="sidecar", FB_PRESET="horovod")
    for name, ip in ips.items():
        kubelet.run(name, ip)
    launcher.reports("open after")
    assert hosts(launcher) == ["10.255.9.2:2", "10.255.9.3:2"]
    frameworks.merge("fw", taskRoles=[waiting("launcher", 1), waiting("worker", 3, gpus=2)])
    frameworks.created(*ips, "fw-worker-2")
    assert hosts(launcher) == ["10.255.9.2:2", "10.255.9.3:2"]
    kubelet.run("fw-worker-2", "10.255.9.4")
    finds(launcher, "10.255.9.2:2", "10.255.9.3:2", "10.255.9.4:2")
    frameworks.merge("fw", taskRoles=[waiting("launcher", 1), waiting("worker", 1, gpus=2)])
    finds(launcher, "10.255.9.2:2")
    assert launcher.process.poll() is None


@pytest.mark.usefixtures("controller")
def test_a_pod_that_a_rescale_adds_finds_the_rendezvous_of_those_that_run_whose_name_survives_a_retry(
    frameworks: Frameworks, kubelet: Kubelet, start: Callable[..., Barrier]
) -> None:
    environ = {"FB_MODE": "sidecar", "FB_PRESET": "pytorch", "FB_NNODES": "1:3", "FB_ADDRESSES": "name"}
    shared = ["PET_NNODES", "PET_RDZV_BACKEND", "PET_RDZV_ID", "PET_RDZV_ENDPOINT", "MASTER_ADDR"]
    retry = {"retryPolicy": {"fancyRetryPolicy": False, "maxRetryCount": 1}}
    one, two = ({**(made := waiting("worker", number)), "task": made["task"] | retry} for number in (1, 2))
    frameworks.create("fw", one)
    first = frameworks.created("fw-worker-0")["fw-worker-0"]
    old = start(first, **environ)
    kubelet.run(first, "10.255.9.1")
    old.reports("open after")
    before = exported(old, *shared)
    attempt = frameworks.status("fw")["attemptStatus"]["instanceUID"]
    assert before == ["1:3", "c10d", attempt, "fw-worker-0:29500", "fw-worker-0"]
    frameworks.merge("fw", taskRoles=[two])
    second = frameworks.created("fw-worker-0", "fw-worker-1")["fw-worker-1"]
    new = start(second, **environ)
    kubelet.run(second, "10.255.9.2")
    new.reports("open after")
    assert exported(new, *shared) == before
    assert exported(new, "PET_LOCAL_ADDR", "NODE_RANK") == ["10.255.9.2", "1"]

    def lists(barrier: Barrier, line: str) -> None:
        assert line in barrier.read("hosts")

    assert "10.255.9.1\tfw-worker-0 " in new.read("hosts")
    eventually(lambda: lists(old, "10.255.9.2\tfw-worker-1 "), 30)
    assert exported(old, *shared) == before
    kubelet.fail(first, 1)

    def retried() -> Json:
        again = frameworks.pods().get("fw-worker-0", first)
        assert again["metadata"]["uid"] != first["metadata"]["uid"]
        return again

    kubelet.run(eventually(retried, 60), "10.255.9.77")
    eventually(lambda: lists(new, "10.255.9.77\tfw-worker-0 "), 30)
    assert exported(new, *shared) == before
