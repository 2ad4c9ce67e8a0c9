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

    from localcluster.client import RawClient
    from testkit.frameworks import ControllerProcess, Frameworks
    from tests.support.kubelet import Kubelet

pytestmark = pytest.mark.apiserver

TIMEOUT_SECONDS = 12
"""Longer than the limit of a request that is not made for webhooks."""
DELETION_SECONDS = 30
"""The most that a webhook may take: as long as a busy machine needs to bind the Pod meanwhile."""
WRITERS = 8
"""How many status writes the controller has on their way at most, by default."""


@contextlib.contextmanager
def registered(frameworks: Frameworks, kind: str, listener: socket.socket, rule: str, **more: Any) -> Iterator[None]:
    """Register a mutating or validating webhook, which the API server calls at a port of this machine.

    Its rule is an operation, a resource, a group and a version: "CREATE pods /v1"; `more` are fields of the webhook.
    """
    operation, resource, group_version = rule.split()
    group, _, version = group_version.partition("/")
    rules = {"apiGroups": [group], "apiVersions": [version], "operations": [operation], "resources": [resource]}
    body = {
        "name": "somebody.example.com",
        "clientConfig": {"url": f"https://127.0.0.1:{listener.getsockname()[1]}/"},
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": frameworks.namespace}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Ignore",
        "rules": [rules],
        **more,
    }
    path = f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations"
    frameworks.raw.create(path, {"metadata": {"name": frameworks.namespace}, "webhooks": [body]})
    try:
        yield
    finally:
        frameworks.raw.delete(f"{path}/{frameworks.namespace}")


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """A listener that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0), backlog=16) as listener:
        listener.settimeout(0.5)
        yield listener


def accepted(listener: socket.socket) -> socket.socket:
    """Return a connection of the API server; as long as it is open, the API server waits."""
    try:
        return listener.accept()[0]
    except TimeoutError as error:
        raise AssertionError("the webhook is not called yet") from error


def test_a_webhook_that_swallows_connections_and_may_be_ignored_prevents_no_pod(
    controller: ControllerProcess, frameworks: Frameworks, silent: socket.socket
) -> None:
    probes = itertools.count()

    def is_called() -> None:
        frameworks.create(f"probe{next(probes)}", role("worker", 1))
        accepted(silent).close()

    def are_created() -> None:
        assert {"fw-worker-0", "fw-worker-1"} <= set(frameworks.pods())

    with registered(frameworks, "mutating", silent, "CREATE pods /v1", timeoutSeconds=TIMEOUT_SECONDS):
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
    pod = frameworks.created("fw-worker-0")["fw-worker-0"]
    with registered(frameworks, "validating", silent, "DELETE pods /v1", timeoutSeconds=DELETION_SECONDS):
        probe = {"metadata": {"name": "probe"}, "spec": pod["spec"]}
        path = frameworks.pods_path

        def is_called() -> None:
            raw.create(path, probe)
            with ThreadPoolExecutor() as pool:
                deletion = pool.submit(raw.delete, f"{path}/probe")
                try:
                    accepted(silent).close()
                finally:
                    deletion.result()

        def is_over() -> None:
            with contextlib.suppress(TimeoutError):
                silent.accept()[0].close()
                raise AssertionError("the API server still calls the webhook about the probe")

        eventually(is_called)
        eventually(is_over)
        frameworks.merge("fw", executionType="Stop")
        with eventually(lambda: accepted(silent)):
            kubelet.run(pod)
            # Now the API server goes on, and later deletions do not wait.
            silent.close()

        def may_take_its_time() -> None:
            metadata = frameworks.pods()["fw-worker-0"]["metadata"]
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
        rule = f"UPDATE frameworks/status {names.API_VERSION}"
        labelled = {"matchLabels": {"refused": "yes"}}
        with registered(frameworks, "validating", closed, rule, failurePolicy="Fail", objectSelector=labelled):
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
            frameworks.created("fw-worker-0")
            kubelet.run("fw-worker-0")
            kubelet.succeed("fw-worker-0")
            frameworks.wait("fw", "Completed")
            assert not [name for name in stuck if frameworks.get(name).get("status")]
    for name in stuck:
        frameworks.wait(name, "AttemptPreparing", timeout=120)
