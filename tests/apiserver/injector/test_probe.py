"""What a cluster supports, asked of an API server that does and of one whose feature gate is off."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from frameworkinjector.review.config import EnvFiles
from frameworkinjector.serving import capabilities
from frameworkinjector.serving.capabilities import Capabilities
from frameworkkube.errors import ForbiddenError
from frameworkkube.http.client import KubeClient
from frameworkkube.http.credentials import from_kubeconfig
from localcluster import Cluster
from localcluster.client import ApiStatusError, RawClient
from testkit.waiting import eventually_async
from tests.injector.golden_pods import pod_of
from tests.injector.replica_processes import PREFIX, SYSTEM, called, create, framework_pod, manifests, path_of
from tests.support.apiserver import beside

pytestmark = [pytest.mark.apiserver, pytest.mark.turns("injector")]

# The release that brought the feature gate EnvFiles, off; from the next one it is on, and nodes read another syntax.
FIRST_MINOR = 34
# In-place restart is on by default from there.
FIRST_RESTARTING_MINOR = 36


@pytest.fixture(scope="module")
def minor(raw: RawClient) -> int:
    return int(raw.get("/version")["minor"].rstrip("+"))


@pytest.fixture(scope="module")
def gates(cluster: Cluster, minor: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, Cluster]]:
    """The cluster with EnvFiles on and with it off: as it is, and by a second API server where there is such a gate."""
    if minor < FIRST_MINOR:
        yield cluster, cluster
        return
    is_on = minor > FIRST_MINOR
    other = f"--feature-gates=EnvFiles={str(not is_on).lower()}"
    with beside(cluster, tmp_path_factory.mktemp("gate"), other) as second:
        yield (cluster, second) if is_on else (second, cluster)


@pytest.fixture(scope="module")
def supported(minor: int) -> EnvFiles:
    """Return what a server of this version supports with the gate on."""
    if minor < FIRST_MINOR:
        return EnvFiles.NONE
    return EnvFiles.PLAIN if minor == FIRST_MINOR else EnvFiles.QUOTED


@contextlib.asynccontextmanager
async def asking_as(identity: Path, cluster: Cluster, namespace: str = SYSTEM) -> AsyncIterator[Capabilities]:
    client = KubeClient(replace(from_kubeconfig(identity), server=cluster.server))
    try:
        yield Capabilities(client, namespace)
    finally:
        await client.close()


async def test_a_server_with_the_gate_says_whether_it_is_on_and_its_version_says_how(
    gates: tuple[Cluster, Cluster], raw: RawClient, identity: Path, supported: EnvFiles
) -> None:
    for server, expected in zip(gates, (supported, EnvFiles.NONE), strict=True):
        async with asking_as(identity, server) as found:
            assert await found.ask() is expected
    assert raw.get(f"/api/v1/namespaces/{SYSTEM}/podtemplates")["items"] == [], "the question stores nothing"


async def test_in_place_restart_is_there_from_the_version_that_has_it_on(
    cluster: Cluster, identity: Path, minor: int
) -> None:
    async with asking_as(identity, cluster) as found:
        assert await found.ask_in_place_restart() is (minor >= FIRST_RESTARTING_MINOR)


@pytest.mark.requires_kubernetes("1.36", "there is a feature gate to be off")
async def test_a_server_whose_gate_of_in_place_restart_is_off_says_no(
    cluster: Cluster, identity: Path, tmp_path: Path
) -> None:
    with beside(cluster, tmp_path, "--feature-gates=RestartAllContainersOnContainerExits=false") as other:
        async with asking_as(identity, other) as found:
            assert await found.ask_in_place_restart() is False


async def test_without_permission_there_is_no_answer_rather_than_a_guess(cluster: Cluster, identity: Path) -> None:
    async with asking_as(identity, cluster, "kube-system") as found:
        with pytest.raises(ForbiddenError):
            await found.ask()


async def test_the_last_answer_stays_valid_while_the_next_question_fails(
    cluster: Cluster, raw: RawClient, identity: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capabilities, "EVERY_SECONDS", 0.1)
    monkeypatch.setattr(capabilities, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(capabilities, "RETRY_KNOWN_SECONDS", 0.3)
    (permissions,) = [one for one in manifests() if one["kind"] == "RoleBinding"]

    async def has_problem(*, expected: bool) -> None:
        assert (asking.status.problem is not None) is expected, asking.status.problem

    async with asking_as(identity, cluster) as asking:
        running = asyncio.create_task(asking.run())
        try:
            await eventually_async(lambda: has_problem(expected=False))
            known = asking.env_files
            raw.delete(path_of(permissions))
            await eventually_async(lambda: has_problem(expected=True))
            assert "forbidden" in (asking.status.problem or "")
            assert known is not None
            assert asking.env_files is known
        finally:
            raw.apply(path_of(permissions), permissions)
        await eventually_async(lambda: has_problem(expected=False))
        running.cancel()


def test_where_the_gate_is_off_auto_wraps_the_command_and_refuses_what_has_none(
    gates: tuple[Cluster, Cluster], identity: Path, namespace: str, tmp_path: Path
) -> None:
    config, file = yaml.safe_load(identity.read_text()), tmp_path / "kubeconfig"
    config["clusters"][0]["cluster"]["server"] = gates[1].server
    file.write_text(yaml.safe_dump(config))
    pod = pod_of("wrap-by-auto")
    pod["metadata"].pop("ownerReferences")
    pod["metadata"]["namespace"] = namespace
    with contextlib.closing(RawClient(gates[1])) as there, called(there, file, tmp_path):
        created = create(there, namespace, pod)
        assert created["spec"]["containers"][0]["command"] == ["/mnt/frameworkbarrier/run", "python", "train.py"]
        bare = framework_pod(namespace, name="mnist-worker-2")
        del bare["spec"]["containers"][0]["command"]
        with pytest.raises(ApiStatusError, match=f"Annotation {PREFIX}env is auto, but this cluster does not support"):
            create(there, namespace, bare)
