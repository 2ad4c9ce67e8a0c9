"""etcd is restored from a backup under a running controller: the cluster goes on from what the backup holds."""

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import localcluster
from localcluster import Cluster
from localcluster.client import ApiStatusError
from localcluster.processes.supervisor import Supervisor
from testkit.frameworks import ControllerProcess, Frameworks, role
from testkit.waiting import eventually, patience
from tests.support.beside.player import Player

pytestmark = [pytest.mark.apiserver, pytest.mark.turns("crds")]

RETRY = {"fancyRetryPolicy": False, "maxRetryCount": 3}
NAMES = ("ends", "retried", "deleted", "grows")
"""Of Frameworks that ran when the backup was made, by what happened to them afterwards."""
STATEFUL = ("kube-controller-manager", "kube-apiserver", "etcd")
"""What an operator stops for a restore; whoever has a cache of the objects is started again."""


@contextlib.contextmanager
def offline(cluster: Cluster) -> Iterator[Path]:
    """Stop the cluster for the block, which is given the data of etcd."""
    for component in STATEFUL:
        Supervisor(cluster.state).stop(component)
    yield cluster.state / "etcd"
    localcluster.up(cluster.name, cluster.depth, kubernetes=cluster.version)


def test_the_controller_notices_that_etcd_was_restored_and_goes_on_from_the_backup_when_it_is_started_again(
    cluster: Cluster, controller: ControllerProcess, frameworks: Frameworks, player: Player, tmp_path: Path
) -> None:
    def is_running(name: str, *pods: str) -> None:
        assert frameworks.status(name)["state"] == "AttemptRunning"
        assert {task["state"] for task in frameworks.tasks(name).values()} == {"AttemptRunning"}
        assert set(pods) <= set(frameworks.pods())

    # The state of an hour ago: four Frameworks run.
    player.plan = {f"{name}-0": ["stay"] for name in NAMES}
    with player.playing():
        for name in NAMES:
            frameworks.create(name, role(name, 1, retry=RETRY))
        for name in NAMES:
            eventually(lambda name=name: is_running(name, f"{name}-{name}-0"), 30)
    backed_up = {name: pod["metadata"]["uid"] for name, pod in frameworks.pods().items()}
    with offline(cluster) as data:
        shutil.copytree(data, tmp_path / "backup")

    # The hour that will be lost.
    player.plan |= {"ends-0": [0], "retried-0": [1, "stay"], "grows-1": ["stay"], "new-0": ["stay"]}
    with player.playing():
        frameworks.create("new", role("new", 1))
        frameworks.raw.delete(f"{frameworks.path}/deleted")
        frameworks.merge("grows", taskRoles=[role("grows", 2, retry=RETRY)])
        frameworks.wait("ends", "Completed")
        eventually(lambda: is_running("new", "new-new-0"), 30)
        eventually(lambda: is_running("grows", "grows-grows-1"), 30)

        def is_retried() -> None:
            is_running("retried", "retried-retried-0")
            assert frameworks.tasks("retried")["retried-0"]["attemptStatus"]["id"] == 1

        eventually(is_retried, 30)

    with offline(cluster) as data:
        shutil.rmtree(data)
        shutil.copytree(tmp_path / "backup", data)

    with pytest.raises(ApiStatusError, match="404"):
        frameworks.get("new")

    assert controller.process is not None
    assert controller.process.wait(patience(60)) == 1
    assert "etcd was restored from a backup" in controller.log
    # What the kubelet does with a container that ended.
    controller.start()
    # Nothing has ended by the restore: the Pods of the backup run on.
    for name in NAMES:
        eventually(lambda name=name: is_running(name, f"{name}-{name}-0"), 30)
    assert {name: pod["metadata"]["uid"] for name, pod in frameworks.pods().items()} == backed_up

    # And the controller works: what happens now is seen, and what is asked is done.
    player.plan |= {key: [0] for key in ("retried-0", "deleted-0", "grows-0", "grows-1", "later-0")}
    frameworks.create("later", role("later", 1))
    frameworks.merge("grows", taskRoles=[role("grows", 2, retry=RETRY)])
    with player.playing():
        for name in (*NAMES, "later"):
            status = frameworks.wait(name, "Completed", 60)
            assert status["attemptStatus"]["completionStatus"]["code"] == 0, (name, status)
    assert len(frameworks.tasks("grows")) == 2
    assert frameworks.pods() == {}
