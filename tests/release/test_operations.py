"""The commands of the manual for operators, typed as they stand there, with the real helm and kubectl.

The API server is real and has no nodes: the Pods of the programs are played, so what is tested is what the commands do
to objects. `tests/e2e/test_chart.py` runs the programs of a release on a node. The suite has a cluster of its own,
because its commands install and remove the definition of Frameworks.
"""

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from frameworkcontroller.api import names
from frameworkrelease.chart import CHART, NAMESPACE, RELEASE, REPOSITORY, helm
from frameworkrelease.generate import plain
from localcluster import Cluster, Depth
from localcluster.client import ApiStatusError, RawClient
from localcluster.errors import LocalClusterError
from testkit.frameworks import ControllerProcess, Frameworks, role
from testkit.waiting import eventually
from tests.support.beside.kubelet import Kubelet
from tests.support.beside.player import Player
from tests.support.clusters import own_cluster
from tests.support.pages import blocks, commands_of, typed
from tests.support.waiting import becomes

pytestmark = [pytest.mark.chart, pytest.mark.apiserver]

INSTALL, UPGRADE = "docs/operate/install.md", "docs/operate/upgrade.md"
RECOVERY, SECURITY, MONITORING = "docs/operate/recovery.md", "docs/operate/security.md", "docs/operate/monitoring.md"
DEFINITION = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{names.CRD_NAME}"
WITHOUT_DEFINITION = f"helm install {RELEASE} charts/frameworkcontroller -n {NAMESPACE} --create-namespace --wait "
WITHOUT_DEFINITION += "--set=crds.enabled=false"

WAIT = f"kubectl wait -n {NAMESPACE} --for=condition=Available --timeout=3m deployment --all"

# Lives of an installation: commands under a heading of a page, or other commands in between.
LIVES: dict[str, list[tuple[str, str, int] | str]] = {
    "with helm": [
        (INSTALL, "With helm", 0),
        (INSTALL, "With helm", 1),
        (UPGRADE, "Upgrade with helm", 0),
        (UPGRADE, "Roll back", 1),
        (UPGRADE, "Roll back", 2),
        (UPGRADE, "Roll back", 3),
        (UPGRADE, "Roll back", 0),
        (RECOVERY, "etcd is restored", 0),
        (INSTALL, "Uninstall", 0),
        (INSTALL, "Uninstall", 2),
    ],
    "with kubectl": [
        (INSTALL, "With kubectl", 0),
        (MONITORING, "Install", 0),
        (UPGRADE, "Upgrade with kubectl or kustomize", 0),
        (INSTALL, "With kubectl", 1),
    ],
    "with kustomize": [(INSTALL, "With kustomize", 0), WAIT],
    "with kustomize, for one namespace": [(INSTALL, "With kustomize", 1), WAIT, (INSTALL, "With kustomize", 2)],
    "for some namespaces": ["kubectl create namespace team-a", (INSTALL, "For some namespaces", 0)],
    "with the definition of somebody else": [
        "kubectl apply --server-side -f charts/frameworkcontroller/files/crd.yaml",
        WITHOUT_DEFINITION,
        (UPGRADE, "The definition belongs to somebody else", 0),
    ],
    "hardened, and gone with all Frameworks": [
        (INSTALL, "With helm", 0),
        (SECURITY, "The namespaces of users", 0),
        *((INSTALL, "Uninstall", number) for number in (1, 2, 3)),
    ],
}
# Typed by a test of its own.
ELSEWHERE = {
    (RECOVERY, "Back up"),
    (RECOVERY, "Restore Frameworks from a file"),
}


@pytest.fixture(scope="module")
def cluster(pytestconfig: pytest.Config) -> Iterator[Cluster]:
    """A control plane of its own."""
    with own_cluster(pytestconfig, Depth.CONTROL_PLANE, "operations") as found:
        yield found


@pytest.fixture(scope="module")
def played(cluster: Cluster) -> Iterator[None]:
    """The Pods of the programs run, as far as the API server knows."""
    with contextlib.closing(RawClient(cluster)) as raw, contextlib.ExitStack() as stack:
        for namespace in (NAMESPACE, "team-system"):
            stack.enter_context(Kubelet(raw, namespace).autopilot())
        yield


@pytest.fixture
def clean(cluster: Cluster, played: None) -> Iterator[None]:
    """Removes every release, the definition and what kubectl has installed at the end of the test."""
    yield
    for release in yaml.safe_load(helm("list", "--all-namespaces", "--output=yaml", kubeconfig=cluster.kubeconfig)):
        where = f"--namespace={release['namespace']}"
        helm("uninstall", release["name"], where, "--wait", kubeconfig=cluster.kubeconfig)
    # The namespace stays where it can: its deletion takes seconds.
    if cluster.kubectl("get", "deployments", f"--namespace={NAMESPACE}", "--output=name"):
        cluster.kubectl("delete", "--ignore-not-found", "-f", str(plain.FILE))
    cluster.kubectl("delete", "crd", "--ignore-not-found", names.CRD_NAME)
    cluster.kubectl("delete", "namespace", "--ignore-not-found", "--wait=false", "team-a", "team-b", "team-system")


def test_every_command_of_the_manual_for_operators_is_typed_by_a_test() -> None:
    pages = sorted(str(page.relative_to(REPOSITORY)) for page in (REPOSITORY / "docs" / "operate").glob("*.md"))
    places = {(block.page, block.heading) for page in pages for block in blocks(page) if block.kind == "sh"}
    parts = [part for life in LIVES.values() for part in life if isinstance(part, tuple)]
    assert places - ELSEWHERE == {(page, heading) for page, heading, _ in parts}
    for page, heading in places - ELSEWHERE:
        typed_blocks = {number for *place, number in parts if place == [page, heading]}
        assert typed_blocks == set(range(len(commands_of(page, heading)))), heading


@pytest.mark.parametrize("life", LIVES.values(), ids=LIVES)
def test_an_installation_lives_by_the_commands_of_the_manual(
    cluster: Cluster, clean: None, tmp_path: Path, life: list[tuple[str, str, int] | str]
) -> None:
    for part in life:
        if isinstance(part, str):
            typed(cluster, part, tmp_path)
        else:
            page, heading, number = part
            typed(cluster, commands_of(page, heading)[number], tmp_path)


# --- the definition changes ------------------------------------------------------------------------------------------


def older_chart(folder: Path) -> str:
    """The chart of a version whose definition knows no deadline."""
    older = shutil.copytree(CHART, folder / "older")
    file = older / "files" / "crd.yaml"
    definition = yaml.safe_load(file.read_text())
    del spec_of(definition)["activeDeadlineSeconds"]
    file.write_text(yaml.safe_dump(definition))
    return str(older)


def spec_of(definition: dict[str, Any]) -> Any:
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema["properties"]["spec"]["properties"]


def test_an_upgrade_brings_the_new_definition_and_a_rollback_the_old_one(
    cluster: Cluster, raw: RawClient, namespace: str, clean: None, tmp_path: Path
) -> None:
    def run(*arguments: str) -> None:
        helm(*arguments, f"--namespace={NAMESPACE}", "--wait", kubeconfig=cluster.kubeconfig)

    frameworks, older = Frameworks(raw, namespace), older_chart(tmp_path)

    def deadline_of(name: str) -> Any:
        return frameworks.get(name)["spec"].get("activeDeadlineSeconds")

    def keeps(name: str, deadline: int | None) -> None:
        # The API server serves a changed definition some moments after it was stored.
        with contextlib.suppress(ApiStatusError):
            raw.delete(f"{frameworks.path}/{name}")
        frameworks.create(name, role("worker", 1), executionType="Create", activeDeadlineSeconds=60)
        assert deadline_of(name) == deadline

    run("install", RELEASE, older, "--create-namespace")
    eventually(lambda: keeps("before", None))
    manifest = yaml.safe_dump(frameworks.get("before") | {"metadata": {"namespace": namespace, "name": "strict"}})
    asking = manifest.replace("executionType: Create", "executionType: Create\n  activeDeadlineSeconds: 60")
    with pytest.raises(LocalClusterError, match=r'unknown field "spec\.activeDeadlineSeconds"'):
        cluster.kubectl("apply", "-f", "-", input=asking)

    run("upgrade", RELEASE, str(CHART), "--reset-then-reuse-values")
    eventually(lambda: keeps("after", 60))
    assert deadline_of("before") is None, "what was dropped is lost"

    # Without the definition of the older chart, the newer one stays.
    run("upgrade", RELEASE, older, "--reset-then-reuse-values", "--set=crds.enabled=false")
    assert "activeDeadlineSeconds" in spec_of(raw.get(DEFINITION))
    # With it, the field is lost at the next write.
    run("rollback", RELEASE, "1")
    eventually(lambda: keeps("back", None))
    frameworks.merge("after", description="written again")
    run("upgrade", RELEASE, str(CHART), "--reset-then-reuse-values")
    eventually(lambda: keeps("again", 60))
    assert deadline_of("after") is None


# --- Frameworks come back from a file --------------------------------------------------------------------------------


def test_frameworks_come_back_from_a_file_and_run_when_they_are_told(
    cluster: Cluster, raw: RawClient, namespace: str, kubelet: Kubelet, clean: None, tmp_path: Path
) -> None:
    frameworks = Frameworks(raw, namespace)
    player = Player(kubelet, frameworks)
    typed(cluster, commands_of(INSTALL, "With helm")[0], tmp_path)
    controller = ControllerProcess(cluster, tmp_path, {"namespaces": [namespace]})
    controller.start()
    try:
        player.plan = {"running-0": ["stay"]}
        with player.playing():
            for name in ("ended", "running"):
                frameworks.create(name, role(name, 1))
            frameworks.wait("ended", "Completed")
            frameworks.wait("running", "AttemptRunning")
            typed(cluster, commands_of(RECOVERY, "Back up")[0], tmp_path)
            # Somebody deletes the definition, and with it everything.
            for commands in commands_of(INSTALL, "Uninstall")[1:]:
                typed(cluster, commands, tmp_path)
            controller.stop()
            becomes(frameworks.pods, {})

        typed(cluster, commands_of(INSTALL, "With helm")[0], tmp_path)
        restore, show = commands_of(RECOVERY, "Restore Frameworks from a file")
        typed(cluster, restore, tmp_path)
        lines = [line.strip() for line in typed(cluster, show, tmp_path).splitlines()]
        assert f"{namespace}/ended Completed Succeeded" in lines
        assert f"{namespace}/running AttemptRunning" in lines
        controller.start()
        for name in ("ended", "running"):
            frameworks.wait(name, "AttemptCreationPending")
        assert frameworks.pods() == {}

        here = [block.text for block in blocks(RECOVERY) if block.heading == "Restore Frameworks from a file"]
        (start,) = [text for text in here if text.startswith("kubectl patch framework")]
        typed(cluster, start.replace("NAMESPACE", namespace).replace("NAME", "running"), tmp_path)
        player.plan = {}
        with player.playing():
            frameworks.wait("running", "Completed")
        assert frameworks.status("ended")["state"] == "AttemptCreationPending"
    finally:
        controller.stop()
