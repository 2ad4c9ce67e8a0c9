"""Admission policies on a real API server: those of the injector, and others beside them."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING

import pytest

from frameworkinjector.policy import MINIMUM, documents
from localcluster.client import ApiStatusError, RawClient
from localcluster.waiting import eventually
from tests.injector.replica_processes import PREFIX, framework_pod

if TYPE_CHECKING:
    from collections.abc import Iterator

    from frameworkinjector.config import Config
    from tests.injector.golden_pods import JSON

API = "admissionregistration.k8s.io/v1"
REQUIRED = pytest.mark.requires_kubernetes(MINIMUM, "MutatingAdmissionPolicy is in v1 of its API")
"""The mark of the tests that install the policies."""
PLURALS = {
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
    "MutatingAdmissionPolicy": "mutatingadmissionpolicies",
    "MutatingAdmissionPolicyBinding": "mutatingadmissionpolicybindings",
}


def path_of(document: JSON) -> str:
    """Return the path of a policy or binding at the API server."""
    return f"/apis/{API}/{PLURALS[document['kind']]}/{document['metadata']['name']}"


def put(raw: RawClient, config: Config) -> None:
    """Apply the policies, and wait until they are in force, which takes the API server a moment."""
    for document in documents(config):
        raw.apply(path_of(document), document)

    def in_force() -> None:
        assert adds_barriers(raw, config)

    eventually(in_force, timeout=30)


@contextlib.contextmanager
def installed(raw: RawClient, config: Config) -> Iterator[None]:
    """Apply the policies until the end."""
    try:
        put(raw, config)
        yield
    finally:
        _remove(raw, documents(config), config)


@contextlib.contextmanager
def only_refusing(raw: RawClient, config: Config) -> Iterator[None]:
    """Apply what an API server before 1.36 takes, until the end: the policy that refuses Pods without a barrier."""
    found = [document for document in documents(config) if document["kind"].startswith("Validating")]
    try:
        for document in found:
            raw.apply(path_of(document), document)

        def in_force() -> None:
            assert isinstance(dry_run(raw, "default"), str)

        eventually(in_force, timeout=30)
        yield
    finally:
        _remove(raw, found, config)


def _remove(raw: RawClient, found: list[JSON], config: Config) -> None:
    """Delete policies; nothing of them is in force at the end."""
    for document in reversed(found):
        raw.delete(path_of(document))

    def gone() -> None:
        assert not adds_barriers(raw, config)
        assert isinstance(dry_run(raw, "default"), dict)

    eventually(gone, timeout=30)


def adds_barriers(raw: RawClient, config: Config) -> bool:
    """Report whether a Pod gets its barrier by the policies of this version, and not by a webhook."""
    created = dry_run(raw, "default")
    if isinstance(created, str):
        return False
    status = json.loads(created["metadata"]["annotations"].get(f"{PREFIX}status", "{}"))
    return bool(status.get("version") == config.version)


def dry_run(raw: RawClient, namespace: str) -> JSON | str:
    """Return what a Pod that asks for the barrier would become, or the message by which it is refused."""
    try:
        return dict(raw.create(f"/api/v1/namespaces/{namespace}/pods?dryRun=All", framework_pod(namespace)))
    except ApiStatusError as error:
        return str(error.body)
