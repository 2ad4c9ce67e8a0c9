"""The SDK against a real API server and controller, with Pods that a test plays."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import urllib3

from frameworkclient import (
    AlreadyExistsError,
    ArgumentError,
    AsyncClient,
    Client,
    Code,
    ConflictError,
    DeletedError,
    FailedError,
    ForbiddenError,
    Framework,
    FrameworkView,
    Impersonation,
    InvalidError,
    NotFoundError,
    RefusedError,
    RetryPolicy,
    Role,
    WaitTimeoutError,
    pod_template,
)
from frameworkclient.cluster.actions import DeletePod
from localcluster import Cluster
from localcluster.client import RawClient
from testkit.frameworks import ControllerProcess
from testkit.waiting import eventually, patience
from tests.support.beside.kubelet import Kubelet
from tests.support.beside.player import Player

pytestmark = [pytest.mark.apiserver, pytest.mark.long]


@pytest.fixture
def client(cluster: Cluster, namespace: str) -> Iterator[Client]:
    with Client(kubeconfig=os.fspath(cluster.kubeconfig), namespace=namespace) as made:
        yield made


@pytest.fixture
async def asynchronous(cluster: Cluster, namespace: str) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(kubeconfig=os.fspath(cluster.kubeconfig), namespace=namespace) as made:
        yield made


def training(*roles: Role, **more: object) -> Framework:
    return Framework("training", roles or (Role.container("worker", 1, image="none"),), **more)  # type: ignore[arg-type]


def test_a_framework_is_created_followed_and_its_result_read_a_success_or_a_failure(
    client: Client, controller: ControllerProcess, player: Player
) -> None:
    made = client.create(training(labels={"team": "vision"}))
    assert (made.name, made.namespace, made.state) == ("training", client.namespace, None)
    with player.playing():
        states = [view.state for view in client.watch("training")]
        result = client.result("training", timeout=patience(30))
    assert states[-1] == "Completed"
    assert (result.succeeded, result.phrase, result.code, result.attempts) == (True, "Succeeded", 0, 1)
    result.raise_for_failure()
    assert [view.name for view in client.list(label_selector="team=vision")] == ["training"]
    assert client.list(label_selector="team=other") == ()
    assert {event.reason for event in client.events("training")} >= {"AttemptStarted", "FrameworkSucceeded"}
    client.delete("training", wait=True, timeout=patience(30))
    with pytest.raises(NotFoundError, match="there is none"):
        client.get("training")
    client.create(training())
    player.plan["worker-0"] = [210]
    with player.playing():
        result = client.result("training", timeout=patience(30))
    assert (result.task, result.code, result.phrase) == ("worker-0", 210, "ContainerPermanentFailed")
    with pytest.raises(FailedError, match=r"Framework training failed by worker-0: ContainerPermanentFailed \(210\)"):
        result.raise_for_failure()


def test_code_goes_with_its_framework_and_survives_that_it_is_submitted_again(
    client: Client, controller: ControllerProcess, player: Player, raw: RawClient
) -> None:
    code, path = Code.packed({"train.py": (b"print(1)", False)}), f"/api/v1/namespaces/{client.namespace}/configmaps"
    # A template may name a ConfigMap of somebody else, who keeps it.
    raw.create(path, {**code.config_map(), "metadata": {"name": "mine"}})
    theirs = Role("other", 1, pod_template(image="none", code="mine"))

    def owners(name: str = code.name) -> list[str]:
        found = raw.get(f"{path}/{name}")
        return [one["uid"] for one in found["metadata"].get("ownerReferences", ())]

    worker = Role.container("worker", 1, image="none", code=code)
    client.create(training(worker, theirs), dry_run=True)
    made = client.create(training(worker, theirs))
    assert owners() == [made.uid]
    with player.playing():
        client.result("training", timeout=patience(30))
        client.retry("training")
        again = client.get("training")
        assert again.uid != made.uid
        assert (owners(), owners("mine")) == ([again.uid], [])
        client.delete("training", wait=True, timeout=patience(30))

    def has_gone() -> None:
        assert code.name not in {one["metadata"]["name"] for one in raw.get(path)["items"]}

    eventually(has_gone, timeout=30)
    assert owners("mine") == []


def test_a_framework_whose_code_is_refused_is_not_left_behind(client: Client, namespace: str) -> None:
    code = Code({}, b"x" * 1_100_000)
    with pytest.raises(InvalidError, match=r"cannot create ConfigMap .*/code-\w+ with the code: .*Too long"):
        client.create(training(Role.container("worker", 1, image="none", code=code)))
    assert client.list() == ()


def test_a_task_is_retried_and_a_role_is_scaled(client: Client, controller: ControllerProcess, player: Player) -> None:
    player.plan["worker-0"] = player.plan["worker-1"] = ["stay"]
    worker = Role.container("worker", 1, image="none", retry_policy=RetryPolicy(fancy_retry_policy=True))
    client.create(training(worker))

    def is_retried(view: FrameworkView) -> bool:
        task = view.task("worker-0")
        return task is not None and task.attempt == 1 and bool(task.ip)

    with player.playing():
        client.wait("training", for_="ready", timeout=patience(30))
        assert isinstance(client.retry("training", "worker-0"), DeletePod)
        client.wait("training", for_=is_retried, timeout=patience(30))
        client.scale("training", {"worker": 2})
        view = client.wait("training", for_=lambda view: view.ready_text == "2/2", timeout=patience(30))
    assert view is not None
    assert [task.name for task in view.tasks] == ["worker-0", "worker-1"]
    assert [pod.task for pod in client.pods("training")] == ["worker-0", "worker-1"]


async def test_a_pod_that_has_ended_is_not_deleted_by_a_retry(
    asynchronous: AsyncClient,
    controller: ControllerProcess,
    player: Player,
    kubelet: Kubelet,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The status may lag behind the Pod, here because the controller is stopped; the result of hours must not go."""
    client, read = asynchronous, asynchronous.kube.get
    player.plan["worker-0"] = ["stay"]
    worker = Role.container("worker", 1, image="none", retry_policy=RetryPolicy(fancy_retry_policy=True))
    await client.create(training(worker))
    with player.playing():
        await client.wait("training", for_="ready", timeout=patience(30))
    assert controller.stop() == 0

    async def ended_once_read(path: str, *arguments: Any, **options: Any) -> bytes:
        answer = await read(path, *arguments, **options)
        if "/pods/" in path:
            kubelet.succeed("training-worker-0")
        return answer

    with monkeypatch.context() as patch:
        patch.setattr(client.kube, "get", ended_once_read)
        with pytest.raises(ConflictError, match="read it again and repeat"):
            await client.retry("training", "worker-0")
    with pytest.raises(ArgumentError, match="its Pod has succeeded already"):
        await client.retry("training", "worker-0")
    assert [pod.stage for pod in await client.pods("training")] == ["succeeded"]


@pytest.mark.usefixtures("controller")
async def test_a_completed_framework_that_changes_meanwhile_is_not_submitted_again(
    asynchronous: AsyncClient, cluster: Cluster, player: Player, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, read = asynchronous, asynchronous.get
    made = await client.create(training())
    with player.playing():
        await client.wait("training", timeout=patience(30))

    async def changed_once_read(name: str, *, namespace: str | None = None) -> FrameworkView:
        view = await read(name, namespace=namespace)
        cluster.kubectl("label", "framework", name, "team=vision", "-n", view.namespace)
        return view

    with monkeypatch.context() as patch:
        patch.setattr(client, "get", changed_once_read)
        with pytest.raises(ConflictError, match="read it again and repeat"):
            await client.retry("training")
    assert (await client.get("training")).uid == made.uid
    with player.playing():
        await client.retry("training")
    again = await client.get("training")
    assert (again.uid != made.uid, again.labels) == (True, {"team": "vision"})


def test_what_is_stored_is_a_manifest_again_and_refusals_have_types_and_name_the_field(
    client: Client, cluster: Cluster
) -> None:
    worker = Role.container("worker", 2, image="none", preset="pytorch", env={"A": "1"})
    framework = training(worker, execution_type="Create")
    again = client.create(framework).manifest()
    assert (again.name, again.roles, again.execution_type) == (framework.name, tuple(framework.roles), "Create")
    with pytest.raises(AlreadyExistsError, match="delete it first, or choose another name"):
        client.create(training())
    with pytest.raises(RefusedError, match=r"spec.taskRoles\[0\].taskNumber"):
        client.create(Framework("huge", [Role.container("worker", 20_000, image="none")]))
    with pytest.raises(WaitTimeoutError, match=r"Framework training is not completed after 0\.2 s"):
        client.wait("training", timeout=0.2)
    kubeconfig, whom = os.fspath(cluster.kubeconfig), Impersonation(user="nobody", groups=("team",))
    with (
        Client(kubeconfig=kubeconfig, namespace=client.namespace, impersonate=whom) as stranger,
        pytest.raises(ForbiddenError, match='User "nobody" cannot get'),
    ):
        stranger.get("training")


async def test_the_blocking_client_works_where_a_loop_runs_as_in_a_notebook(client: Client) -> None:
    assert "training" in client.create(training())._repr_html_()  # type: ignore[attr-defined]
    assert "training" in client.list()._repr_html_()


async def to_the_end(items: AsyncIterator[object]) -> None:
    """Take all items; that a Framework is being deleted may be one, depending on when it was read."""
    async for _ in items:
        pass


async def test_the_deletion_of_a_framework_ends_what_follows_it(asynchronous: AsyncClient) -> None:
    client = asynchronous
    await client.create(training(execution_type="Create"))
    views, logs = client.watch("training"), client.log_batches("training", follow=True)
    assert (await anext(views)).state is None
    both = [asyncio.ensure_future(to_the_end(items)) for items in (views, logs)]
    await asyncio.sleep(0)
    await client.delete("training")
    # The name is given to another one, which is not what was followed.
    await client.wait("training", for_="deleted")
    await client.create(training(execution_type="Create"))
    for one in both:
        with pytest.raises(DeletedError):
            async with asyncio.timeout(patience(20)):
                await one
    await views.aclose()
    await logs.aclose()


async def test_a_list_of_events_outlives_a_compaction_between_its_pages(
    asynchronous: AsyncClient, cluster: Cluster, namespace: str, raw: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The token of the second page is too old by then, and an Event that was there is gone."""
    path, about = f"/api/v1/namespaces/{namespace}/events", {"kind": "Framework", "namespace": namespace}
    for number in range(130):
        of = about | {"name": "training" if number != 7 else "other"}
        raw.create(path, {"metadata": {"name": f"e{number:03}"}, "reason": "Because", "involvedObject": of})
    request, sent = asynchronous.kube.request, []

    async def compacting(*arguments: Any, **options: Any) -> bytes:
        answer = await request(*arguments, **options)
        sent.append(len(answer))
        if len(sent) == 1:
            raw.delete(f"{path}/e000")
            compact(cluster)
        return answer

    monkeypatch.setattr(asynchronous.kube, "request", compacting)
    events = await asynchronous.events("training", pods=())
    assert [event.metadata.name for event in events] == [f"e{number:03}" for number in range(130) if number != 7]
    assert len(sent) == 2


def compact(cluster: Cluster) -> None:
    """Drop all old versions from etcd, as the API server does every five minutes."""
    etcd = f"http://127.0.0.1:{cluster.port('etcd')}/v3/kv"
    pool = urllib3.PoolManager()
    head = pool.request("POST", f"{etcd}/range", json={"key": "AA==", "count_only": True}).json()["header"]
    asked = {"revision": head["revision"], "physical": True}
    assert pool.request("POST", f"{etcd}/compaction", json=asked).status == 200
