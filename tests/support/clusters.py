"""A pytest plugin: the clusters of a test run, which all its workers share, and those that modules take turns with.

The first worker that needs a cluster starts it; the process that started the workers removes all of them at the end.
What a whole cluster has is installed once (`once`), and a test that changes it would disturb those that run beside it:
the modules of such tests have a mark, `@pytest.mark.turns("crds")`. They run one after another in one worker, on
clusters that only they use.

The clusters of a run that was killed are removed by the next one. With `FRAMEWORKCONTROLLER_TEST_CLUSTER=NAME` a run
uses clusters `NAME-<which>` instead and keeps them, which saves the start.
"""

import contextlib
import functools
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from xdist.scheduler import LoadScopeScheduling

import localcluster
from localcluster import Cluster, Depth, SetupError
from localcluster.client import Json, RawClient
from localcluster.cluster import settings
from localcluster.cluster.cluster import require_root
from localcluster.processes import process
from testkit.frameworks import apply_definition, apply_permissions

ROOT = Path(__file__).parents[2]
MARK = "turns"
RUN = "FRAMEWORKCONTROLLER_TEST_RUN"
"""Of the environment, which workers inherit: what the names of the run's clusters begin with."""
_KEPT = "FRAMEWORKCONTROLLER_TEST_CLUSTER"
_OWN = re.compile(r"(?:pytest|t)-(?P<pid>\d+)-(?P<started>[0-9a-f]+)-[a-z-]+")
_NAMES = {Depth.CONTROL_PLANE: "cp", Depth.KWOK: "kwok", Depth.NODE: "node"}
_WHOLE = (
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
    "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
)
"""What concerns all tests of a cluster."""
_ONE_NAMESPACE = "kubernetes.io/metadata.name"
_KNOWN = "whole.json"


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark, and name the run."""
    config.addinivalue_line("markers", f"{MARK}(name): in turns with others of this name, on clusters of their own")
    if not hasattr(config, "workerinput"):
        identity = process.identify(os.getpid())
        assert identity is not None
        os.environ[RUN] = f"t-{identity.pid}-{identity.started:x}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest."""
    items.sort(key=lambda item: _place(item.nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """Let a module, or those that take turns, run in one worker."""
    return _Modules(config, log)


class _Modules(LoadScopeScheduling):  # type: ignore[misc]  # it has no types
    def _split_scope(self, nodeid: str) -> str:
        return _turns(nodeid.partition("::")[0]) or nodeid.partition("::")[0]


@functools.cache
def _turns(module: str) -> str:
    """Return with whom a module takes turns; the process that distributes the tests has collected none."""
    found = re.search(rf'mark\.{MARK}\("(\w+)"\)', (ROOT / module).read_text())
    return found[1] if found else ""


def _place(nodeid: str) -> int:
    folders = ("tests/e2e/", "tests/release/", "tests/demo/", "tests/localcluster/", "tests/apiserver/")
    if _turns(nodeid.partition("::")[0]):
        return -1
    return next((place for place, folder in enumerate(folders) if nodeid.startswith(folder)), len(folders))


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the clusters of the run."""
    if not hasattr(config, "workerinput"):
        for name in settings.names():
            if name.startswith(f"{os.environ[RUN]}-"):
                localcluster.down(name)


@pytest.fixture(scope="module")
def control_plane(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A control plane without nodes, with the definition of Frameworks and the controller's permissions."""
    yield from prepared(request, Depth.CONTROL_PLANE)


@pytest.fixture(scope="module")
def kwok_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A cluster with five simulated nodes, likewise."""
    yield from prepared(request, Depth.KWOK)


@pytest.fixture(scope="module")
def node_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A cluster with a real node; without root its tests are skipped, or fail where a cluster is required (CI)."""
    require_node()
    yield from prepared(request, Depth.NODE)


def prepared(request: pytest.FixtureRequest, depth: Depth) -> Iterator[Cluster]:
    """Give the run's cluster of this depth, or that of the modules with which the test's module takes turns.

    What all tests may need is installed. In the end of a module nobody may have changed it in the cluster of the run.
    """
    mark = request.node.get_closest_marker(MARK)
    cluster = _up(request.config, depth, f"{mark.args[0]}-{_NAMES[depth]}" if mark else _NAMES[depth])

    def install() -> None:
        with contextlib.closing(RawClient(cluster)) as raw:
            apply_definition(raw)
        apply_permissions(cluster)

    once(cluster, "definitions", install)
    yield cluster
    if mark:
        return
    with _held(cluster):
        before, now = json.loads((cluster.state / _KNOWN).read_text()), whole_of(cluster)
        changed = sorted(path for path in {*before, *now} if before.get(path) != now.get(path))
    assert not changed, f"changed for all tests of the cluster, without @pytest.mark.{MARK}: {', '.join(changed)}"


@contextlib.contextmanager
def own_cluster(config: pytest.Config, depth: Depth, name: str, *, kubernetes: str | None = None) -> Iterator[Cluster]:
    """Start a cluster for one module, whose name ends so, and remove it at its end; see `localcluster.up`."""
    cluster = _up(config, depth, name, kubernetes)
    try:
        yield cluster
    finally:
        if not os.environ.get(_KEPT):
            localcluster.down(cluster.name)


def _up(config: pytest.Config, depth: Depth, name: str, kubernetes: str | None = None) -> Cluster:
    """Return a cluster that runs. One that cannot start is an error, never a skip."""
    manager = config.pluginmanager.getplugin("capturemanager")
    # Capture is off while it starts, so that a long build is shown. What is left of it goes with the run.
    with manager.global_and_fixture_disabled() if manager else contextlib.nullcontext():
        remove_abandoned()
        return localcluster.up(own_name(name), depth, kubernetes=kubernetes)


def once(cluster: Cluster, what: str, do: Callable[[], object]) -> None:
    """Do something to a whole cluster, unless it was done in this run, by whichever worker; others wait for it."""
    done = cluster.state / f"done-{what}"
    with _held(cluster):
        if not done.exists() or done.read_text() != os.environ[RUN]:
            do()
            done.write_text(os.environ[RUN])
            (cluster.state / _KNOWN).write_text(json.dumps(whole_of(cluster)))


def whole_of(cluster: Cluster) -> dict[str, Json]:
    """Return what concerns all tests of a cluster, by its path; a webhook for one namespace does not."""
    with contextlib.closing(RawClient(cluster)) as raw:
        found = {f"{path}/{one['metadata']['name']}": one for path in _WHOLE for one in raw.get(path)["items"]}
    return {path: _content(one) for path, one in found.items() if not _is_left_out(one)}


def _content(one: Json) -> Json:
    content = {key: value for key, value in one.items() if key not in {"metadata", "status"}}
    for webhook in content.get("webhooks", ()):
        # A replica that has renewed its certificate writes it.
        webhook["clientConfig"].pop("caBundle", None)
    return content


def _is_left_out(one: Json) -> bool:
    # A controller aggregates the rules of some of Kubernetes' own roles, a little later.
    if "kubernetes.io/bootstrapping" in one["metadata"].get("labels", {}):
        return True
    selectors = [webhook.get("namespaceSelector", {}) for webhook in one.get("webhooks", ())]
    return bool(selectors) and all(_ONE_NAMESPACE in selector.get("matchLabels", {}) for selector in selectors)


def _held(cluster: Cluster) -> FileLock:
    return FileLock(cluster.state / ".whole.lock")


def require_node() -> None:
    """Skip the test where this machine does not allow a real node; fail where a cluster is required (CI)."""
    try:
        require_root()
    except SetupError as error:
        if is_required():
            raise
        pytest.skip(str(error))


def is_required(environ: Mapping[str, str] = os.environ) -> bool:
    """Report whether a cluster that this machine does not allow is a failure rather than a skip."""
    return environ.get("CI", "") in {"true", "1"} or environ.get("FRAMEWORKCONTROLLER_REQUIRE_CLUSTER") == "1"


def own_name(name: str) -> str:
    """Return the full name of a cluster of this run; it identifies the run, so that others see whether it is alive."""
    return f"{os.environ.get(_KEPT) or os.environ[RUN]}-{name}"


def remove_abandoned() -> None:
    """Remove the clusters of runs that ended without doing so."""
    for name in settings.names():
        if found := _OWN.fullmatch(name):
            owner = process.identify(int(found["pid"]))
            if owner is None or owner.started != int(found["started"], 16):
                localcluster.down(name)
