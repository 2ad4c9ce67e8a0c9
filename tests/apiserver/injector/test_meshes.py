"""The injector beside another one that adds a proxy, called before it and after it."""

import base64
import itertools
import json
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from localcluster.client import ApiStatusError, RawClient
from testkit.waiting import eventually
from tests.injector.golden_pods import JSON
from tests.injector.replica_processes import PREFIX, Replica, called, framework_pod
from tests.support.http import serving
from tests.support.rows import each

pytestmark = [pytest.mark.apiserver, pytest.mark.turns("injector")]

ADMISSION = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
# What each mesh adds to the Pod: its annotations, and its container, before or after the author's.
MESHES: dict[str, tuple[dict[str, str], str, str]] = {
    "istio": ({"sidecar.istio.io/status": '{"containers":["istio-proxy"]}'}, "istio-proxy", "-"),
    "linkerd": ({"linkerd.io/proxy-version": "edge-25.9.1"}, "linkerd-proxy", "0"),
    "dapr": ({"dapr.io/enabled": "true"}, "daprd", "-"),
}


def added_to(path: str, review: bytes) -> tuple[int, bytes]:
    """Answer a review as the webhook of a mesh, whose name is the path."""
    request = json.loads(review)["request"]
    annotations, container, position = MESHES[path.partition("?")[0].strip("/")]
    pod, patch = request["object"], []
    if all(one["name"] != container for one in pod["spec"]["containers"]):
        added = {f"/spec/containers/{position}": {"name": container, "image": "example.org/proxy:1"}}
        added |= {f"/metadata/annotations/{key.replace('/', '~1')}": value for key, value in annotations.items()}
        patch = [{"op": "add", "path": place, "value": value} for place, value in added.items()]
    response = {"uid": request["uid"], "allowed": True, "patchType": "JSONPatch"}
    response["patch"] = base64.b64encode(json.dumps(patch).encode()).decode()
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
    return 200, json.dumps(body).encode()


@pytest.fixture(scope="module")
def mesh() -> Iterator[tuple[str, str]]:
    """The address of the webhooks, and their authority for `caBundle`."""
    authority, context = trustme.CA(), ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    with serving(added_to, tls=context) as url:
        yield url, base64.b64encode(authority.cert_pem.bytes()).decode()


@pytest.fixture(scope="module", params=[(), ("--env-files=none",)], ids=["as supported", "wrap"])
def injector(
    request: pytest.FixtureRequest, raw: RawClient, identity: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Replica]:
    with called(raw, identity, tmp_path_factory.mktemp("injector"), *request.param) as replica:
        yield replica


def install(raw: RawClient, name: str, kind: str, mesh: tuple[str, str], namespace: str) -> None:
    webhook = {
        "name": "mesh.example.com",
        "clientConfig": {"url": f"{mesh[0]}/{kind}", "caBundle": mesh[1]},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "sideEffects": "None",
        "reinvocationPolicy": "IfNeeded",
        "admissionReviewVersions": ["v1"],
    }
    raw.create(ADMISSION, {"metadata": {"name": name}, "webhooks": [webhook]})


# The API server calls webhooks in the order of the names of their configurations: ours is `frameworkinjector`.
@pytest.mark.usefixtures("injector")
@each("order, kind", itertools.product(["a-before", "z-after"], MESHES))
def test_the_proxy_of_a_mesh_stays_as_it_is(
    order: str, kind: str, mesh: tuple[str, str], raw: RawClient, namespace: str
) -> None:
    name = f"{order}-{namespace[-8:]}"
    install(raw, name, kind, mesh, namespace)
    try:
        before = {one["name"] for one in framework_pod(namespace)["spec"]["containers"]}

        def created() -> JSON:
            try:
                pod = raw.create(f"/api/v1/namespaces/{namespace}/pods?dryRun=All", framework_pod(namespace))
            except ApiStatusError as error:
                raise AssertionError(str(error)) from error
            # The API server calls a new webhook, and no longer calls the one before it, after a moment.
            assert {one["name"] for one in pod["spec"]["containers"]} == {*before, MESHES[kind][1]}
            return dict(pod)

        pod = eventually(created, 30)
    finally:
        raw.delete(f"{ADMISSION}/{name}")
    containers = {one["name"]: one for one in pod["spec"]["containers"]}
    proxy, app = containers.pop(MESHES[kind][1]), containers.popitem()[1]
    assert [one["name"] for one in pod["spec"]["initContainers"]] == ["frameworkbarrier"]
    assert "env" not in proxy
    assert "command" not in proxy
    assert "/mnt/frameworkbarrier" not in str(proxy)
    assert "/mnt/frameworkbarrier" in str(app["volumeMounts"])
    wrapped = app["command"][0] == "/mnt/frameworkbarrier/run"
    assert wrapped != ("fileKeyRef" in str(app.get("env")))
    assert json.loads(pod["metadata"]["annotations"][PREFIX + "status"])["containers"] == [app["name"]]
