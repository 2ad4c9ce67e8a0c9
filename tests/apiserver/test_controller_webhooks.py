"""Somebody's admission webhook that does not answer delays Pods, and prevents none if it may be ignored."""

from __future__ import annotations

import itertools
import socket
from typing import TYPE_CHECKING

import pytest

from localcluster.frameworks import role
from localcluster.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from localcluster.client import RawClient
    from localcluster.frameworks import ControllerProcess, Frameworks

pytestmark = pytest.mark.apiserver

ADMISSION = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
TIMEOUT_SECONDS = 12
"""Longer than the limit of a request that is not made for webhooks."""


@pytest.fixture
def silent_webhook(raw: RawClient, namespace: str) -> Iterator[socket.socket]:
    """A webhook for the Pods of the test's namespace that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0), backlog=16) as listener:
        webhook = {
            "name": "silent.example.com",
            "clientConfig": {"url": f"https://127.0.0.1:{listener.getsockname()[1]}/"},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "failurePolicy": "Ignore",
            "timeoutSeconds": TIMEOUT_SECONDS,
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
        raw.create(ADMISSION, {"metadata": {"name": namespace}, "webhooks": [webhook]})
        try:
            yield listener
        finally:
            raw.delete(f"{ADMISSION}/{namespace}")


def test_a_webhook_that_swallows_connections_and_may_be_ignored_prevents_no_pod(
    controller: ControllerProcess, frameworks: Frameworks, silent_webhook: socket.socket
) -> None:
    # The API server calls a new webhook after about a second.
    silent_webhook.settimeout(0.5)
    probes = itertools.count()

    def is_called() -> None:
        frameworks.create(f"probe{next(probes)}", role("worker", 1))
        try:
            connection, _ = silent_webhook.accept()
        except TimeoutError as error:
            raise AssertionError("the webhook is not called yet") from error
        connection.close()

    eventually(is_called)
    frameworks.create("fw", role("worker", 2))

    def are_created() -> None:
        assert {"fw-worker-0", "fw-worker-1"} <= set(frameworks.pods())

    eventually(are_created, timeout=3 * TIMEOUT_SECONDS)
    tasks = frameworks.tasks("fw")
    assert {task["attemptStatus"]["id"] for task in tasks.values()} == {0}
    assert "no answer within" not in controller.log
