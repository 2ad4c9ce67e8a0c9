"""What a cluster supports, asked of an API server that does and of one whose feature gate is off."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from frameworkinjector.review.config import EnvFiles
from frameworkinjector.serving import capabilities
from frameworkinjector.serving.capabilities import Capabilities
from frameworkkube.errors import ForbiddenError
from frameworkkube.http.client import KubeClient
from frameworkkube.http.credentials import Endpoint
from localcluster.client import ApiStatusError, RawClient
from localcluster.ports import free_port
from localcluster.supervisor import Supervisor
from testkit.waiting import eventually, eventually_async, patience
from tests.injector.golden_pods import pod_of
from tests.injector.replica_processes import (
    PREFIX,
    SYSTEM,
    call,
    create,
    framework_pod,
    identity_of,
    installed_on,
    manifests,
    path_of,
    start,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from localcluster import Cluster

pytestmark = [pytest.mark.apiserver, pytest.mark.turns("injector")]


# The release that brought the feature gate EnvFiles, off; from the next one it is on, and nodes read another syntax.
FIRST_MINOR = 34
# In-place restart is on by default from there.
FIRST_RESTARTING_MINOR = 36


@pytest.fixture(scope="module")
def minor(raw: RawClient) -> int:
    """Return the minor version of the API server."""
    return int(raw.get("/version")["minor"].rstrip("+"))


@contextlib.contextmanager
def with_gate(cluster: Cluster, minor: int, *, on: bool, folder: Path) -> Iterator[Cluster]:
    """Yield the cluster with this setting of EnvFiles: as it is, or with a second API server that is started for it."""
    if on is (minor > FIRST_MINOR) or minor < FIRST_MINOR:
        yield cluster
        return
    with beside(cluster, f"EnvFiles={str(on).lower()}", folder) as other:
        yield other


@contextlib.contextmanager
def beside(cluster: Cluster, gates: str, folder: Path) -> Iterator[Cluster]:
    """Yield the cluster by a second API server with these feature gates."""
    pid = Supervisor(cluster.state).running("kube-apiserver")
    arguments = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    command = [one for one in arguments if one and not one.startswith("--secure-port=")]
    port = free_port()
    command += [f"--secure-port={port}", f"--feature-gates={gates}"]
    log = folder / "kube-apiserver.log"
    with log.open("wb") as stderr:
        process = subprocess.Popen(command, stderr=stderr, stdout=stderr)
    other = dataclasses.replace(cluster, api_port=port)
    try:

        def answers() -> None:
            assert process.poll() is None, log.read_text()[-2000:]
            # Ready, not only answering: until its caches are full, it knows no role and forbids everything.
            with contextlib.closing(RawClient(other)) as client:
                ready = client.check_ready()
            assert ready is True, ready

        eventually(answers, timeout=60, interval=0.5)
        yield other
    finally:
        process.terminate()
        process.wait(patience(30))


@pytest.fixture(scope="module")
def gate_on(cluster: Cluster, minor: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with with_gate(cluster, minor, on=True, folder=tmp_path_factory.mktemp("gate-on")) as found:
        yield found


@pytest.fixture(scope="module")
def gate_off(cluster: Cluster, minor: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with with_gate(cluster, minor, on=False, folder=tmp_path_factory.mktemp("gate-off")) as found:
        yield found


@pytest.fixture(scope="module")
def supported(minor: int) -> EnvFiles:
    """Return what a server of this version supports with the gate on."""
    if minor < FIRST_MINOR:
        return EnvFiles.NONE
    return EnvFiles.PLAIN if minor == FIRST_MINOR else EnvFiles.QUOTED


@pytest.fixture(scope="module")
def identity(cluster: Cluster, raw: RawClient, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with installed_on(raw):
        yield identity_of(cluster, raw, tmp_path_factory.mktemp("identity"))


async def asked(cluster: Cluster, token: str, namespace: str = SYSTEM) -> EnvFiles:
    client = KubeClient(Endpoint(cluster.server, ca_file=cluster.ca_file, authorization=f"Bearer {token}"))
    try:
        return await Capabilities(client, namespace).ask()
    finally:
        await client.close()


def token_in(identity: Path) -> str:
    token: str = yaml.safe_load(identity.read_text())["users"][0]["user"]["token"]
    return token


async def test_a_server_with_the_gate_on_says_yes_and_its_version_says_how(
    gate_on: Cluster, identity: Path, supported: EnvFiles
) -> None:
    assert await asked(gate_on, token_in(identity)) is supported


async def test_a_server_with_the_gate_off_says_no(gate_off: Cluster, identity: Path) -> None:
    assert await asked(gate_off, token_in(identity)) is EnvFiles.NONE


async def asked_about_restart(cluster: Cluster, token: str) -> bool:
    client = KubeClient(Endpoint(cluster.server, ca_file=cluster.ca_file, authorization=f"Bearer {token}"))
    try:
        return await Capabilities(client, SYSTEM).ask_in_place_restart()
    finally:
        await client.close()


async def test_in_place_restart_is_there_from_the_version_that_has_it_on(
    cluster: Cluster, identity: Path, minor: int
) -> None:
    assert await asked_about_restart(cluster, token_in(identity)) is (minor >= FIRST_RESTARTING_MINOR)


@pytest.mark.requires_kubernetes("1.36", "there is a feature gate to be off")
async def test_a_server_whose_gate_of_in_place_restart_is_off_says_no(
    cluster: Cluster, identity: Path, tmp_path: Path
) -> None:
    with beside(cluster, "RestartAllContainersOnContainerExits=false", tmp_path) as other:
        assert await asked_about_restart(other, token_in(identity)) is False


async def test_the_question_stores_nothing(cluster: Cluster, raw: RawClient, identity: Path) -> None:
    await asked(cluster, token_in(identity))
    assert raw.get(f"/api/v1/namespaces/{SYSTEM}/podtemplates")["items"] == []


async def test_without_permission_there_is_no_answer_rather_than_a_guess(cluster: Cluster, identity: Path) -> None:
    with pytest.raises(ForbiddenError):
        await asked(cluster, token_in(identity), "kube-system")


async def test_the_last_answer_stays_valid_while_the_next_question_fails(
    cluster: Cluster, raw: RawClient, identity: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capabilities, "EVERY_SECONDS", 0.1)
    monkeypatch.setattr(capabilities, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(capabilities, "RETRY_KNOWN_SECONDS", 0.3)
    endpoint = Endpoint(cluster.server, ca_file=cluster.ca_file, authorization=f"Bearer {token_in(identity)}")
    client = KubeClient(endpoint)
    asking = Capabilities(client, SYSTEM)
    running = asyncio.create_task(asking.run())
    (permissions,) = [one for one in manifests() if one["kind"] == "RoleBinding"]

    async def has_problem(*, expected: bool) -> None:
        assert (asking.status.problem is not None) is expected, asking.status.problem

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
    await client.close()


@contextlib.contextmanager
def called_by(server: Cluster, identity: Path, folder: Path) -> Iterator[RawClient]:
    """Start an injector that asks this API server what it supports, and is called by it."""
    config = yaml.safe_load(identity.read_text())
    config["clusters"][0]["cluster"]["server"] = server.server
    file = folder / "kubeconfig"
    file.write_text(yaml.safe_dump(config))
    replica = start(file, folder)
    there = RawClient(server)
    try:
        replica.wait_until_ready()
        call(there, replica.port)
        yield there
    finally:
        there.close()
        assert replica.stop() == 0


def test_where_the_gate_is_on_the_barrier_writes_what_the_nodes_read(
    gate_on: Cluster, identity: Path, supported: EnvFiles, namespace: str, tmp_path: Path
) -> None:
    with called_by(gate_on, identity, tmp_path) as there:
        created = create(there, namespace, framework_pod(namespace))
        (barrier,), (app,) = created["spec"]["initContainers"], created["spec"]["containers"]
        syntax = {one["name"]: one.get("value") for one in barrier["env"]}.get("FB_ENV_SYNTAX")
        refers = any("fileKeyRef" in one.get("valueFrom", {}) for one in app.get("env", []))
        assert (syntax, refers) == ((None, False) if supported is EnvFiles.NONE else (supported.value, True))


def test_where_the_gate_is_off_auto_wraps_the_command_and_refuses_what_has_none(
    gate_off: Cluster, identity: Path, namespace: str, tmp_path: Path
) -> None:
    with called_by(gate_off, identity, tmp_path) as there:
        pod = pod_of("wrap-by-auto")
        pod["metadata"].pop("ownerReferences")
        pod["metadata"]["namespace"] = namespace
        created = create(there, namespace, pod)
        assert created["spec"]["containers"][0]["command"] == ["/mnt/frameworkbarrier/run", "python", "train.py"]
        bare = framework_pod(namespace, name="mnist-worker-2")
        del bare["spec"]["containers"][0]["command"]
        with pytest.raises(ApiStatusError, match=f"Annotation {PREFIX}env is auto, but this cluster does not support"):
            create(there, namespace, bare)
