"""Refusals by the API server that a test waits for, and others who are asked before it takes something."""

import base64
import contextlib
import json
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from localcluster import Cluster
from localcluster.client import ApiStatusError, Json, RawClient
from testkit.frameworks import POD
from testkit.waiting import eventually

_POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
_BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
_CONTROLLER = ("frameworkcontroller-system", "frameworkcontroller")


def refusal_of(raw: RawClient, path: str, body: Json) -> str:
    """Return why the API server would refuse to create an object, an unknown field included; "" if it would not.

    `pytest.raises` cannot stand in a check of `eventually`: it fails by an exception that ends the wait.

    Args:
        raw: The client.
        path: The collection.
        body: The object.
    """
    try:
        raw.create(f"{path}?dryRun=All&fieldValidation=Strict", body)
    except ApiStatusError as error:
        return str(error)
    return ""


@contextlib.contextmanager
def policy_of_pods(
    raw: RawClient, namespace: str, labels: Mapping[str, str] | None = None, **validation: str
) -> Iterator[None]:
    """Let a policy judge the Pods of a namespace until the block ends; the API server takes it over with a delay.

    Args:
        raw: The client.
        namespace: The namespace, whose name is that of the policy.
        labels: Which Pods it judges; default: all.
        validation: How it does.
    """
    rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
    judged = {"resourceRules": [rule], "objectSelector": {"matchLabels": dict(labels or {})}}
    here = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}
    spec = {"matchConstraints": judged, "validations": [validation]}
    bound = {"policyName": namespace, "validationActions": ["Deny"], "matchResources": here}
    raw.create(_POLICIES, {"metadata": {"name": namespace}, "spec": spec})
    raw.create(_BINDINGS, {"metadata": {"name": namespace}, "spec": bound})
    try:
        yield
    finally:
        raw.delete(f"{_BINDINGS}/{namespace}")
        raw.delete(f"{_POLICIES}/{namespace}")


@contextlib.contextmanager
def webhook(raw: RawClient, namespace: str, kind: str, rule: str, port: int = 1, **more: Any) -> Iterator[None]:
    """Register a webhook of one namespace until the block ends; the API server calls it after about a second.

    Args:
        raw: The client.
        namespace: The namespace, whose name the registration has, too.
        kind: `mutating` or `validating`.
        rule: An operation, a resource, a group and a version: "CREATE pods /v1".
        port: Where it listens on this machine; by default, where nobody does.
        more: Fields of the webhook.
    """
    operation, resource, group_version = rule.split()
    group, _, version = group_version.partition("/")
    body = {
        "name": "somebody.example.com",
        "clientConfig": {"url": f"https://127.0.0.1:{port}/"},
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Ignore",
        "rules": [{"apiGroups": [group], "apiVersions": [version], "operations": [operation], "resources": [resource]}],
        **more,
    }
    path = f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations"
    raw.create(path, {"metadata": {"name": namespace}, "webhooks": [body]})
    try:
        yield
    finally:
        raw.delete(f"{path}/{namespace}")


@contextlib.contextmanager
def judged(cluster: Cluster, raw: RawClient, namespace: str, judge: Callable[[Json], Json | None]) -> Iterator[None]:
    """Have a webhook judge all that the controller asks of a namespace until the block ends.

    Args:
        cluster: The cluster.
        raw: The client.
        namespace: The namespace.
        judge: Is given the request of a review; returns the Status of a refusal, None to allow it. Called in threads.
    """
    is_asked = threading.Event()

    class Webhook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["request"]
            is_asked.set()
            refusal = None if request["dryRun"] else judge(request)
            answer = {"uid": request["uid"], "allowed": refusal is None, "status": refusal}
            self.send_response(200)
            self.end_headers()
            review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": answer}
            self.wfile.write(json.dumps(review).encode())

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    def is_called() -> None:
        body = {"metadata": {"name": "probe"}}
        RawClient(cluster, cluster.token(*_CONTROLLER)).create(
            f"/api/v1/namespaces/{namespace}/pods?dryRun=All", POD | body
        )
        assert is_asked.is_set()

    files, tls = cluster.pki.server("webhook", hosts=["127.0.0.1"]), ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(files.certificate, files.key)
    trust = base64.b64encode(cluster.ca_file.read_bytes()).decode()
    user = f"request.userInfo.username == 'system:serviceaccount:{':'.join(_CONTROLLER)}'"
    with ThreadingHTTPServer(("127.0.0.1", 0), Webhook) as server:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=[0.05])
        thread.start()
        more: Json = {
            "clientConfig": {"url": f"https://127.0.0.1:{server.server_port}/", "caBundle": trust},
            "matchConditions": [{"name": "controller", "expression": user}],
            "failurePolicy": "Fail",
        }
        try:
            with webhook(raw, namespace, "validating", "* */* */*", **more):
                eventually(is_called)
                yield
        finally:
            server.shutdown()
            thread.join()
