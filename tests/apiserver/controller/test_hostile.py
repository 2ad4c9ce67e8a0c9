"""What others put in the controller's way stops nobody else: Frameworks that it cannot read, and admission webhooks.

Webhooks do not answer, answer late, or refuse.
"""

import contextlib
import gzip
import itertools
import socket
import time
from base64 import b64encode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from frameworkcontroller.api import names
from localcluster import Cluster
from localcluster.client import RawClient
from testkit.frameworks import ControllerProcess, Frameworks, framework, role
from testkit.waiting import eventually
from tests.support.apiserver import create_nested
from tests.support.beside.kubelet import Kubelet
from tests.support.beside.player import Player
from tests.support.beside.refusals import webhook

pytestmark = pytest.mark.apiserver

DEPTHS = {"deep": 990, "deeper": 1100, "deepest": 9900}
"""Nested arrays in a template: about, and far beyond, what Python follows by itself; the server takes nearly 10,000."""
SMALL_STACK = """
import resource, runpy
resource.setrlimit(resource.RLIMIT_STACK, (4 << 20, resource.getrlimit(resource.RLIMIT_STACK)[1]))
runpy.run_module("frameworkcontroller", run_name="__main__", alter_sys=True)
"""
"""A controller that may not follow more than Python does."""
CUT_OFF = b64encode(gzip.compress(b"[" + b"1," * 5000 + b"1]")[:-9]).decode()
TIMEOUT_SECONDS = 12
"""Longer than the limit of a request that is not made for webhooks."""
DELETION_SECONDS = 30
"""The most that a webhook may take: as long as a busy machine needs to bind the Pod meanwhile."""
WRITERS = 8
"""How many status writes the controller has on their way at most, by default."""


def make_hostile(cluster: Cluster, frameworks: Frameworks, when: str) -> None:
    """Create the Frameworks that cannot be read, each between healthy ones."""
    for name, depth in DEPTHS.items():
        create_nested(cluster, frameworks, f"{name}{when}", depth)
        frameworks.create(f"{name}{when}good", role("worker", 1))
    # Not started, so that nothing but its status can be wrong.
    frameworks.create(f"corrupt{when}", role("worker", 1), executionType="Create")
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    attempt = {"id": 0, "startTime": now, "configMapName": f"corrupt{when}-attempt"}
    status = {
        "startTime": now,
        "state": "AttemptCreationPending",
        "transitionTime": now,
        "attemptStatus": attempt | {"taskRoleStatuses": None, "taskRoleStatusesCompressed": CUT_OFF},
    }
    path = f"{frameworks.path}/corrupt{when}"
    # The controller, where it runs, writes too: a patch names no version that could be an old one.
    frameworks.raw.merge(f"{path}/status", {"status": status})
    # One that rests is read only when it is to start.
    frameworks.raw.merge(path, {"spec": {"executionType": "Start"}})
    frameworks.create(f"corrupt{when}good", role("worker", 1))


@pytest.mark.parametrize("small", [True, False], ids=["small stack", "stack"])
def test_frameworks_that_cannot_be_read_stop_no_other_when_they_are_listed_or_watched(
    cluster: Cluster, controller: ControllerProcess, frameworks: Frameworks, player: Player, *, small: bool
) -> None:
    assert controller.stop() == 0
    if small:
        controller.program = ("-c", SMALL_STACK)
    make_hostile(cluster, frameworks, "listed")
    controller.start()
    make_hostile(cluster, frameworks, "watched")

    def is_said() -> None:
        for name, reason in (("deepest", "Unreadable" if small else "FrameworkSucceeded"), ("corrupt", "Quarantined")):
            for when in ("listed", "watched"):
                assert reason in {event["reason"] for event in frameworks.events(f"{name}{when}")}, (name, when)

    with player.playing():
        for name in (*DEPTHS, "corrupt"):
            for when in ("listed", "watched"):
                frameworks.wait(f"{name}{when}good", "Completed", timeout=60)
        frameworks.create("last", role("worker", 1))
        frameworks.wait("last", "Completed", timeout=60)
        eventually(is_said)


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """A listener that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0), backlog=16) as listener:
        listener.settimeout(0.5)
        yield listener


def port_of(listener: socket.socket) -> int:
    return int(listener.getsockname()[1])


def accepted(listener: socket.socket) -> socket.socket:
    """Return a connection of the API server; as long as it is open, the API server waits."""
    try:
        return listener.accept()[0]
    except TimeoutError as error:
        raise AssertionError("the webhook is not called yet") from error


def test_a_webhook_that_swallows_connections_and_may_be_ignored_prevents_no_pod(
    controller: ControllerProcess, frameworks: Frameworks, raw: RawClient, silent: socket.socket
) -> None:
    probes = itertools.count()

    def is_called() -> None:
        frameworks.create(f"probe{next(probes)}", role("worker", 1))
        accepted(silent).close()

    with webhook(
        raw, frameworks.namespace, "mutating", "CREATE pods /v1", port_of(silent), timeoutSeconds=TIMEOUT_SECONDS
    ):
        # The API server calls a new webhook after about a second.
        eventually(is_called)
        frameworks.create("fw", role("worker", 2))
        eventually(lambda: [frameworks.pods()[f"fw-worker-{index}"] for index in (0, 1)], 3 * TIMEOUT_SECONDS)
    tasks = frameworks.tasks("fw")
    assert {task["attemptStatus"]["id"] for task in tasks.values()} == {0}
    assert "no answer within" not in controller.log


def test_a_pod_that_is_bound_while_it_is_deleted_stays_until_its_containers_have_ended(
    controller: ControllerProcess, frameworks: Frameworks, raw: RawClient, kubelet: Kubelet, silent: socket.socket
) -> None:
    # The API server removes a Pod without a node at once, and decides that before it asks the webhook. The attempt goes
    # on: the garbage collector deletes without a version what conflicts once, and with it a Pod that was just bound.
    frameworks.create("fw", role("worker", 2))
    pod = frameworks.created("fw-worker-0", "fw-worker-1")["fw-worker-1"]
    with webhook(
        raw, frameworks.namespace, "validating", "DELETE pods /v1", port_of(silent), timeoutSeconds=DELETION_SECONDS
    ):
        probe = {"metadata": {"name": "probe"}, "spec": pod["spec"]}
        path = frameworks.pods_path

        def is_called() -> None:
            # Twice for one Pod, and whoever is not refused waits for ten seconds.
            raw.create(path, probe)
            calls = 0
            with ThreadPoolExecutor() as pool:
                deletion = pool.submit(raw.delete, f"{path}/probe")
                while not deletion.done():
                    with contextlib.suppress(TimeoutError):
                        silent.accept()[0].close()
                        calls += 1
            deletion.result()
            assert calls, "the webhook is not called yet"

        eventually(is_called)
        frameworks.merge("fw", taskRoles=[role("worker", 1)])
        with eventually(lambda: accepted(silent)):
            kubelet.run(pod)
            # Now the API server goes on, and later deletions do not wait.
            silent.close()

        def may_take_its_time() -> None:
            metadata = frameworks.pods()["fw-worker-1"]["metadata"]
            assert metadata.get("deletionGracePeriodSeconds"), metadata

        eventually(may_take_its_time, timeout=30)
    assert "worker-1" in frameworks.tasks("fw")
    kubelet.finish_deletion(pod)

    def is_gone() -> None:
        assert set(frameworks.tasks("fw")) == {"worker-0"}

    eventually(is_gone)


def test_statuses_that_a_webhook_refuses_stop_no_other_framework(
    controller: ControllerProcess, frameworks: Frameworks, raw: RawClient, kubelet: Kubelet
) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        rule = f"UPDATE frameworks/status {names.API_VERSION}"
        strict = {"failurePolicy": "Fail", "objectSelector": {"matchLabels": {"refused": "yes"}}}
        with webhook(raw, frameworks.namespace, "validating", rule, port_of(closed), **strict):
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
