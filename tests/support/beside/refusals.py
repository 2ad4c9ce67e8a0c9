"""Refusals by the API server that a test waits for, and others who are asked before it takes something."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from localcluster.client import ApiStatusError, Json, RawClient

_POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
_BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"


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
