"""What somebody who holds the injector's token can do to its webhook configuration."""

import base64
import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from localcluster import Cluster
from localcluster.client import ApiStatusError, RawClient
from testkit.waiting import eventually
from tests.injector.golden_pods import JSON
from tests.injector.replica_processes import CONFIGURATION
from tests.support.rows import each

pytestmark = [pytest.mark.apiserver, pytest.mark.turns("injector")]
STRATEGIC = "application/strategic-merge-patch+json"
ELSEWHERE = {"service": {"name": "other", "namespace": "default", "port": 443, "path": "/"}, "url": None}
ALL_SECRETS = {"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["secrets"]}


@pytest.fixture(scope="module")
def stolen(cluster: Cluster, identity: Path) -> Iterator[RawClient]:
    """A client with the token of the injector, once the policy is in force."""
    token = yaml.safe_load(identity.read_text())["users"][0]["user"]["token"]
    with contextlib.closing(RawClient(cluster, token)) as client:

        def in_force() -> None:
            assert refusal(client, {"metadata": {"labels": {"probe": "1"}}}, "?dryRun=All") != ""

        eventually(in_force, timeout=60)
        yield client


def refusal(client: RawClient, body: JSON, query: str = "") -> str:
    """Patch the configuration; return why that is refused, "" if it is not."""
    try:
        client.request("PATCH", f"{CONFIGURATION}{query}", body, STRATEGIC)
    except ApiStatusError as error:
        return str(error.body)
    return ""


def webhook(raw: RawClient) -> JSON:
    found, _ = raw.get(CONFIGURATION)["webhooks"]
    return found


def test_the_ca_bundle_can_be_changed(raw: RawClient, stolen: RawClient) -> None:
    bundle = base64.b64encode(b"-----BEGIN CERTIFICATE-----\n").decode()
    before = webhook(raw)
    changed = {"name": before["name"], "clientConfig": {"caBundle": bundle}}
    assert refusal(stolen, {"webhooks": [changed]}) == ""
    assert webhook(raw) == {**before, "clientConfig": {**before["clientConfig"], "caBundle": bundle}}


CHANGES: dict[str, JSON] = {
    "where it is": {"clientConfig": ELSEWHERE},
    "its url": {"clientConfig": {"url": "https://192.0.2.1/"}},
    "what it is called for": {"rules": [ALL_SECRETS]},
    "for which labels": {"objectSelector": None},
    "in which namespaces": {"namespaceSelector": None},
    "whether a failure counts": {"failurePolicy": "Ignore"},
    "how long it may take": {"timeoutSeconds": 30},
    "which versions match": {"matchPolicy": "Exact"},
    "on which condition": {"matchConditions": [{"name": "never", "expression": "false"}]},
    "whether it is called again": {"reinvocationPolicy": "Never"},
    "its side effects": {"sideEffects": "NoneOnDryRun"},
    "its versions": {"admissionReviewVersions": ["v1", "v1beta1"]},
}


@each("change", CHANGES.values(), CHANGES)
def test_nothing_else_of_the_webhook_can_be_changed(raw: RawClient, stolen: RawClient, change: JSON) -> None:
    before = webhook(raw)
    body = {"webhooks": [{"name": before["name"], **change}]}
    assert "The injector may change only caBundle" in refusal(stolen, body)
    assert webhook(raw) == before
    # The same change is valid: an administrator may make it.
    assert refusal(raw, body, "?dryRun=All") == ""


def test_its_metadata_cannot_be_changed_and_no_webhook_added_or_removed(raw: RawClient, stolen: RawClient) -> None:
    owner = {"apiVersion": "v1", "kind": "Namespace", "name": "gone", "uid": "0"}
    of = {"labels": {"a": "b"}, "annotations": {"a": "b"}, "finalizers": ["a.org/b"], "ownerReferences": [owner]}
    for field, value in of.items():
        assert "not the metadata" in refusal(stolen, {"metadata": {field: value}}), field
    added = {**webhook(raw), "name": "another.frameworkcontroller.microsoft.com"}
    for one in (added, {"name": webhook(raw)["name"], "$patch": "delete"}):
        assert "The injector may change only caBundle" in refusal(stolen, {"webhooks": [one]})
