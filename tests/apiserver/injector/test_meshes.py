"""The injector beside another one that adds a proxy, called before it and after it."""

import base64
import http.server
import itertools
import json
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from localcluster.client import ApiStatusError, RawClient
from testkit.waiting import eventually
from tests.injector.golden_pods import JSON
from tests.injector.replica_processes import PREFIX, Replica, called, framework_pod
from tests.support.rows import each

pytestmark = [pytest.mark.apiserver, pytest.mark.turns("injector")]

ADMISSION = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
# What each mesh adds to the Pod: its annotations, and its container, before or after the author's.
MESHES: dict[str, tuple[dict[str, str], str, str]] = {
    "istio": ({"sidecar.istio.io/status": '{"containers":["istio-proxy"]}'}, "istio-proxy", "-"),
    "linkerd": ({"linkerd.io/proxy-version": "edge-25.9.1"}, "linkerd-proxy", "0"),
    "dapr": ({"dapr.io/enabled": "true"}, "daprd", "-"),
}


class Mesh(http.server.BaseHTTPRequestHandler):
    """The webhook of a mesh; its name is the path."""

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["request"]
        annotations, container, position = MESHES[self.path.partition("?")[0].strip("/")]
        pod, patch = request["object"], []
        if all(one["name"] != container for one in pod["spec"]["containers"]):
            added = {f"/spec/containers/{position}": {"name": container, "image": "example.org/proxy:1"}}
            added |= {f"/metadata/annotations/{key.replace('/', '~1')}": value for key, value in annotations.items()}
            patch = [{"op": "add", "path": path, "value": value} for path, value in added.items()]
        response = {"uid": request["uid"], "allowed": True, "patchType": "JSONPatch"}
        response["patch"] = base64.b64encode(json.dumps(patch).encode()).decode()
        body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
        encoded = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(encoded)))
        self.end_headers()
        self.wfile.write(encoded)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture(scope="module")
def mesh() -> Iterator[tuple[str, str]]:
    """The address of the webhooks, and their authority for `caBundle`."""
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Mesh) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever).start()
        yield f"https://127.0.0.1:{server.server_port}", base64.b64encode(authority.cert_pem.bytes()).decode()
        server.shutdown()


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
