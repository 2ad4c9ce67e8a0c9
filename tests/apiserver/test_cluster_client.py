"""The Kubernetes client and its informer against a real API server."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from frameworkkube.errors import (
    AlreadyExistsError,
    ConflictError,
    ForbiddenError,
    GoneError,
    InvalidError,
    NotFoundError,
    UnauthorizedError,
)
from frameworkkube.http.client import PARTIAL_METADATA, PARTIAL_METADATA_LIST, KubeClient
from frameworkkube.http.credentials import Endpoint, from_kubeconfig
from frameworkkube.informer.informer import Informer
from frameworkkube.informer.watch_events import WireDecoder
from frameworkkube.paths import resource_path
from localcluster import Cluster
from localcluster.client import RawClient
from testkit.waiting import eventually, patience

pytestmark = [pytest.mark.apiserver, pytest.mark.turns("crds")]


class Meta(msgspec.Struct, frozen=True, rename="camel", gc=False):
    name: str
    uid: str
    resource_version: str
    namespace: str = ""
    labels: dict[str, str] = {}


class Object(msgspec.Struct, frozen=True, gc=False):
    metadata: Meta
    status: dict[str, Any] = {}


@pytest.fixture
def endpoint(cluster: Cluster) -> Endpoint:
    return from_kubeconfig(cluster.kubeconfig)


@pytest.fixture
async def client(endpoint: Endpoint) -> AsyncIterator[KubeClient]:
    made = KubeClient(endpoint)
    yield made
    await made.close()


@pytest.fixture
def pods(namespace: str) -> str:
    return resource_path("v1", "pods", namespace=namespace)


@pytest.fixture(scope="module")
def gadgets(raw: RawClient) -> Iterator[Callable[[str], str]]:
    """A custom resource with a status subresource; gives the path of a namespace's collection."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True}
    version |= {"subresources": {"status": {}}, "schema": {"openAPIV3Schema": schema}}
    kind = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    called = {"plural": "gadgets", "singular": "gadget", "kind": "Gadget"}
    spec = {"group": "tests.example", "scope": "Namespaced", "names": called, "versions": [version]}
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gadgets.tests.example"
    raw.apply(path, {**kind, "metadata": {"name": "gadgets.tests.example"}, "spec": spec})

    def is_established() -> None:
        conditions = raw.get(path).get("status", {}).get("conditions") or []
        assert {"Established"} <= {each["type"] for each in conditions if each["status"] == "True"}

    eventually(is_established, timeout=30)
    yield lambda namespace: resource_path("tests.example/v1", "gadgets", namespace=namespace)
    raw.delete(path)


def pod(name: str, **labels: str) -> bytes:
    spec = {"containers": [{"name": "main", "image": "none", "command": ["true"]}]}
    metadata = {"name": name, "labels": labels}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}).encode()


def gadget(name: str) -> bytes:
    body = {"apiVersion": "tests.example/v1", "kind": "Gadget", "metadata": {"name": name}, "spec": {"size": 1}}
    return json.dumps(body).encode()


@contextlib.asynccontextmanager
async def following(informer: Informer[Object]) -> AsyncIterator[None]:
    task = asyncio.ensure_future(informer.run())
    try:
        await asyncio.wait_for(informer.synced.wait(), patience(10))
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(patience(15)):
        while not condition():  # noqa: ASYNC110 -- any condition
            await asyncio.sleep(0.01)


# --- requests --------------------------------------------------------------------------------------------------------


async def test_an_object_is_created_once_read_and_deleted_by_its_uid(client: KubeClient, pods: str) -> None:
    with pytest.raises(InvalidError, match=r"metadata\.name: Invalid value"):
        await client.create(pods, pod("Capital_Letters"))
    made = msgspec.json.decode(await client.create(pods, pod("a")), type=Object)
    with pytest.raises(AlreadyExistsError, match='pods "a" already exists'):
        await client.create(pods, pod("a"))
    assert msgspec.json.decode(await client.get(f"{pods}/a"), type=Object) == made
    with pytest.raises(ConflictError, match=r"[Pp]recondition"):
        await client.delete(f"{pods}/a", uid="another")
    with pytest.raises(ConflictError, match=r"[Pp]recondition"):
        await client.delete(f"{pods}/a", uid=made.metadata.uid, resource_version="1")
    await client.delete(f"{pods}/a", uid=made.metadata.uid, grace_period_seconds=0, propagation="Background")
    with pytest.raises(NotFoundError):
        await client.get(f"{pods}/a")
    with pytest.raises(NotFoundError):
        await client.delete(f"{pods}/a", uid=made.metadata.uid)


async def test_a_large_status_passes_and_one_written_on_an_old_version_is_a_conflict(
    client: KubeClient, namespace: str, gadgets: Callable[[str], str]
) -> None:
    path = gadgets(namespace)
    first = json.loads(await client.create(path, gadget("a")))
    large = json.dumps(first | {"status": {"data": "x" * 1_200_000}}).encode()
    answer = await client.replace(f"{path}/a/status", large, accept=PARTIAL_METADATA)
    assert len(answer) < 10_000
    second = json.loads(answer)["metadata"]["resourceVersion"]
    assert int(second) > int(first["metadata"]["resourceVersion"])
    with pytest.raises(ConflictError, match="the object has been modified"):
        await client.replace(f"{path}/a/status", json.dumps(first | {"status": {"n": 2}}).encode())
    await client.patch(f"{path}/a/status", b'{"status":{"data":null,"n":3}}')
    assert json.loads(await client.get(f"{path}/a"))["status"] == {"n": 3}


async def test_a_stranger_is_unauthorized_and_a_service_account_is_forbidden(
    endpoint: Endpoint, cluster: Cluster, namespace: str, pods: str
) -> None:
    plain = replace(endpoint, client_certificate_file=None, client_key_file=None, reload=None)
    for token, error, text in (
        ("nobody", UnauthorizedError, None),
        (cluster.token(namespace, "default"), ForbiddenError, 'cannot list resource "pods"'),
    ):
        user = KubeClient(replace(plain, authorization=f"Bearer {token}"))
        with pytest.raises(error, match=text):
            await user.get(pods)
        await user.close()


# --- metadata only ---------------------------------------------------------------------------------------------------


def is_partial(answer: bytes) -> bool:
    value = json.loads(answer)
    assert value["kind"] in {"PartialObjectMetadata", "Pod", "Gadget"}, value
    return value["kind"] == "PartialObjectMetadata" and set(value) == {"kind", "apiVersion", "metadata"}


@pytest.mark.parametrize("kind", ["pods", "gadgets"])
async def test_answers_lists_and_watches_carry_the_metadata_only(
    client: KubeClient, namespace: str, pods: str, gadgets: Callable[[str], str], kind: str
) -> None:
    path, make = (pods, pod) if kind == "pods" else (gadgets(namespace), gadget)
    created = await client.create(path, make("a"), accept=PARTIAL_METADATA)
    assert is_partial(created)
    meta = msgspec.json.decode(created, type=Object).metadata
    assert (meta.name, bool(meta.uid)) == ("a", True)
    assert is_partial(await client.get(f"{path}/a", accept=PARTIAL_METADATA))
    assert is_partial(await client.patch(f"{path}/a", b'{"metadata":{"labels":{"b":"c"}}}', accept=PARTIAL_METADATA))
    listed = json.loads(await client.get(path, accept=PARTIAL_METADATA_LIST))
    assert listed["kind"] == "PartialObjectMetadataList"
    assert [sorted(set(item) - {"kind", "apiVersion"}) for item in listed["items"]] == [["metadata"]]
    query = {"watch": "true", "resourceVersion": listed["metadata"]["resourceVersion"], "timeoutSeconds": "30"}
    await client.create(path, make("b"))
    async with aclosing(client.stream(path, query, accept=PARTIAL_METADATA)) as lines:
        event = json.loads(await anext(lines))
    assert event["type"] == "ADDED"
    assert set(event["object"]) == {"kind", "apiVersion", "metadata"}
    assert event["object"]["metadata"]["name"] == "b"
    if kind == "pods":
        assert is_partial(await client.delete(f"{path}/a", uid=meta.uid, accept=PARTIAL_METADATA))
        return
    whole = json.loads(await client.get(f"{path}/a"))
    body = json.dumps(whole | {"status": {"n": 1}}).encode()
    answer = await client.replace(f"{path}/a/status", body, accept=PARTIAL_METADATA)
    assert is_partial(answer)
    stored = json.loads(await client.get(f"{path}/a"))
    assert stored["status"] == {"n": 1}
    assert msgspec.json.decode(answer, type=Object).metadata.resource_version == stored["metadata"]["resourceVersion"]
    assert is_partial(await client.patch(f"{path}/a/status", b'{"status":{"n":2}}', accept=PARTIAL_METADATA))


# --- the informer ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("accept", ["application/json", PARTIAL_METADATA], ids=["whole", "metadata"])
async def test_the_cache_follows_creation_change_replacement_and_deletion(
    client: KubeClient, namespace: str, pods: str, accept: str
) -> None:
    for number in range(7):
        await client.create(pods, pod(f"p{number}", group="x"))
    seen: list[tuple[str, str]] = []

    def on_change(old: Object | None, new: Object | None) -> None:
        seen.append(("-" if new is None else "+" if old is None else "~", (new or old).metadata.name))

    options = {"label_selector": "group", "accept": accept, "page_size": 3}
    informer = Informer(client, pods, msgspec.json.Decoder(Object), on_change=on_change, **options)
    async with following(informer):
        assert sorted(seen) == [("+", f"p{number}") for number in range(7)]
        seen.clear()
        written = msgspec.json.decode(await client.create(pods, pod("new", group="y")), type=Object)
        await until(lambda: int(informer.resource_version) >= int(written.metadata.resource_version))
        assert informer.get(namespace, "new").metadata == written.metadata
        await client.patch(f"{pods}/new", b'{"metadata":{"labels":{"group":null}}}')
        await until(lambda: len(seen) == 2)
        await client.patch(f"{pods}/new", b'{"metadata":{"labels":{"group":"z"}}}')
        await until(lambda: len(seen) == 3)
        assert seen == [("+", "new"), ("-", "new"), ("+", "new")]
        assert informer.get(namespace, "new").metadata.labels == {"group": "z"}
        assert all(informer.get(namespace, f"p{number}") is not None for number in range(7))
        assert len(informer) == 8
        seen.clear()
        await client.delete(f"{pods}/p0", grace_period_seconds=0)
        again = msgspec.json.decode(await client.create(pods, pod("p0", group="x")), type=Object)
        await until(
            lambda: informer.get(namespace, "p0") and informer.get(namespace, "p0").metadata.uid == again.metadata.uid
        )
        # A deletion is first a change: the deletionTimestamp.
        assert [change for change in seen if change[0] != "~"] == [("-", "p0"), ("+", "p0")]
        assert (len(informer), informer.lists, informer.failures) == (8, 1, 0)


@pytest.mark.requires_kubernetes("1.34", "the API server streams lists by default")
@pytest.mark.parametrize("kind", ["pods", "gadgets", "metadata"])
async def test_a_list_is_streamed(
    endpoint: Endpoint, client: KubeClient, namespace: str, pods: str, gadgets: Callable[[str], str], kind: str
) -> None:
    path, make = (gadgets(namespace), gadget) if kind == "gadgets" else (pods, pod)
    for number in range(30):
        await client.create(path, make(f"o{number}"))
    sent: list[str] = []

    class Observer:
        def finished(self, *, method: str, host: str, code: str, seconds: float) -> None:
            sent.append(code)

    watching = KubeClient(endpoint, observer=Observer())
    accept = PARTIAL_METADATA if kind == "metadata" else "application/json"
    decoder, options = msgspec.json.Decoder(Object), {"accept": accept, "page_size": 3}
    informer = Informer(watching, path, decoder, on_change=lambda old, new: None, **options)
    async with following(informer):
        assert (len(informer), informer.lists) == (30, 1)
        made = msgspec.json.decode(await client.create(path, make("new")), type=Object)
        await until(lambda: informer.get(namespace, "new"))
        assert int(informer.resource_version) >= int(made.metadata.resource_version)
    await watching.close()
    assert sent == ["200"], "one request for the list and what came after it"


async def test_custom_resources_are_followed_too(
    client: KubeClient, namespace: str, gadgets: Callable[[str], str]
) -> None:
    path = gadgets(namespace)
    informer = Informer(client, path, msgspec.json.Decoder(Object), on_change=lambda old, new: None)
    async with following(informer):
        made = json.loads(await client.create(path, gadget("a")))
        await client.replace(f"{path}/a/status", json.dumps(made | {"status": {"n": 5}}).encode())
        await until(lambda: (found := informer.get(namespace, "a")) is not None and found.status == {"n": 5})


async def test_a_version_that_the_server_no_longer_has_is_gone(
    client: KubeClient, namespace: str, gadgets: Callable[[str], str]
) -> None:
    """The case in which the informer lists again: the server knows this kind only since its definition."""
    query = {"watch": "true", "resourceVersion": "1", "timeoutSeconds": "30"}
    decoder = WireDecoder(msgspec.json.Decoder(Object))
    async with aclosing(client.stream(gadgets(namespace), query)) as lines:
        line = await anext(lines)
    with pytest.raises(GoneError, match="too old resource version"):
        decoder.event(line)
