"""Admission webhooks of others that do not answer, answer late, or refuse: what they delay, and what they must not."""

from __future__ import annotations

import contextlib
import itertools
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from frameworkcontroller.api import names
from frameworkcontroller.api.states import ENDED
from testkit.frameworks import framework, role
from testkit.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from localcluster.client import Json, RawClient
    from testkit.frameworks import ControllerProcess, Frameworks
    from tests.support.kubelet import Kubelet

pytestmark = pytest.mark.apiserver

GROUP = "/apis/admissionregistration.k8s.io/v1"
TIMEOUT_SECONDS = 12
"""Longer than the limit of a request that is not made for webhooks."""
DELETION_SECONDS = 30
"""The most that a webhook may take: as long as a busy machine needs to bind the Pod meanwhile."""
WRITERS = 8
"""How many status writes the controller has on their way at most, by default."""


@contextlib.contextmanager
def registered(raw: RawClient, namespace: str, plural: str, port: int, **webhook: Any) -> Iterator[None]:
    """Register a webhook for objects of the test's namespace; the API server calls it at a port of this machine."""
    body = {
        "name": "somebody.example.com",
        "clientConfig": {"url": f"https://127.0.0.1:{port}/"},
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **webhook,
    }
    raw.create(f"{GROUP}/{plural}", {"metadata": {"name": namespace}, "webhooks": [body]})
    try:
        yield
    finally:
        raw.delete(f"{GROUP}/{plural}/{namespace}")


def rule(operation: str, resource: str, group: str = "", version: str = "v1") -> dict[str, list[str]]:
    """Return the rule of a webhook."""
    return {"apiGroups": [group], "apiVersions": [version], "operations": [operation], "resources": [resource]}


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """A listener that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0), backlog=16) as listener:
        listener.settimeout(0.5)
        yield listener


def accepted(listener: socket.socket) -> socket.socket:
    """Return a connection of the API server; as long as it is open, the API server waits."""
    connection = accepted_soon(listener)
    assert connection is not None, "the webhook is not called yet"
    return connection


def accepted_soon(listener: socket.socket) -> socket.socket | None:
    """Return a connection of the API server, or None if there is none for a while."""
    try:
        return listener.accept()[0]
    except TimeoutError:
        return None


def test_a_webhook_that_swallows_connections_and_may_be_ignored_prevents_no_pod(
    controller: ControllerProcess, frameworks: Frameworks, raw: RawClient, silent: socket.socket
) -> None:
    probes = itertools.count()

    def is_called() -> None:
        frameworks.create(f"probe{next(probes)}", role("worker", 1))
        accepted(silent).close()

    def are_created() -> None:
        assert {"fw-worker-0", "fw-worker-1"} <= set(frameworks.pods())

    with registered(
        raw,
        frameworks.namespace,
        "mutatingwebhookconfigurations",
        silent.getsockname()[1],
        rules=[rule("CREATE", "pods")],
        failurePolicy="Ignore",
        timeoutSeconds=TIMEOUT_SECONDS,
    ):
        # The API server calls a new webhook after about a second.
        eventually(is_called)
        frameworks.create("fw", role("worker", 2))
        eventually(are_created, timeout=3 * TIMEOUT_SECONDS)
    tasks = frameworks.tasks("fw")
    assert {task["attemptStatus"]["id"] for task in tasks.values()} == {0}
    assert "no answer within" not in controller.log


@pytest.mark.requires_kubernetes("1.34", "the garbage collector deletes a Pod only if it has not changed")
def test_a_pod_that_is_bound_while_it_is_deleted_stays_until_its_containers_have_ended(
    controller: ControllerProcess, frameworks: Frameworks, raw: RawClient, kubelet: Kubelet, silent: socket.socket
) -> None:
    # The API server removes a Pod without a node at once, and decides that before it asks the webhook.
    frameworks.create("fw", role("worker", 1))
    pod = eventually(lambda: one_of(frameworks.pods()))
    with registered(
        raw,
        frameworks.namespace,
        "validatingwebhookconfigurations",
        silent.getsockname()[1],
        rules=[rule("DELETE", "pods")],
        failurePolicy="Ignore",
        timeoutSeconds=DELETION_SECONDS,
    ):
        probe = {"metadata": {"name": "probe"}, "spec": pod["spec"]}
        path = f"/api/v1/namespaces/{frameworks.namespace}/pods"

        def is_called() -> None:
            raw.create(path, probe)
            with ThreadPoolExecutor() as pool:
                deletion = pool.submit(raw.delete, f"{path}/probe")
                try:
                    accepted(silent).close()
                finally:
                    deletion.result()

        def is_over() -> None:
            connection = accepted_soon(silent)
            if connection is not None:
                connection.close()
            assert connection is None, "the API server still calls the webhook about the probe"

        eventually(is_called)
        eventually(is_over)
        frameworks.merge("fw", executionType="Stop")
        with eventually(lambda: accepted(silent)):
            kubelet.run(pod)
            # Now the API server goes on, and later deletions do not wait.
            silent.close()

        def may_take_its_time() -> None:
            metadata = one_of(frameworks.pods())["metadata"]
            assert metadata.get("deletionGracePeriodSeconds"), metadata

        eventually(may_take_its_time, timeout=30)
    assert frameworks.status("fw")["state"] not in ENDED
    kubelet.finish_deletion(pod)
    frameworks.wait("fw", "Completed")


def test_statuses_that_a_webhook_refuses_stop_no_other_framework(
    controller: ControllerProcess, frameworks: Frameworks, raw: RawClient, kubelet: Kubelet
) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        with registered(
            raw,
            frameworks.namespace,
            "validatingwebhookconfigurations",
            closed.getsockname()[1],
            rules=[rule("UPDATE", "frameworks/status", names.GROUP, names.VERSION)],
            failurePolicy="Fail",
            objectSelector={"matchLabels": {"refused": "yes"}},
        ):
            stuck = [f"stuck{number}" for number in range(2 * WRITERS)]
            for name in stuck:
                manifest = framework(frameworks.namespace, name, role("worker", 1))
                manifest["metadata"]["labels"] = {"refused": "yes"}
                raw.create(frameworks.path, manifest)

            def is_reported() -> None:
                for name in stuck:
                    assert "FailedStatusWrite" in {event["reason"] for event in frameworks.events(name)}, name

            eventually(is_reported, timeout=60)
            frameworks.create("fw", role("worker", 1))
            pod = eventually(lambda: one_of(frameworks.pods()))
            kubelet.run(pod)
            kubelet.succeed(pod)
            frameworks.wait("fw", "Completed")
            assert not [name for name in stuck if frameworks.get(name).get("status")]
    for name in stuck:
        frameworks.wait(name, "AttemptPreparing", timeout=120)


def one_of(pods: dict[str, Json]) -> Json:
    assert len(pods) == 1, sorted(pods)
    return next(iter(pods.values()))
