"""A pytest plugin: which modules a run leaves out, because nothing that they watch has changed since all were green.

What protects the programs always runs, but for slow tests of one program, on a cluster or of what inputs cost or of
every way to fail, if neither the program nor what it stands on has changed. They and those of tools, examples,
migrations and releases watch the paths of `WATCHED`: a green `make test-all` keeps a hash of what is under each of them
in `tests/last-full.json`, by `python -m tests.support.select`. Hashes are read from the working tree, so that neither
git nor its history is needed.
Each file is watched, or has tests that always run (`ALWAYS`), or is watched by nobody (`NOBODY`). One that is neither
runs everything, as a missing record does, and `EVERYTHING=1`.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
RECORD: Final = "tests/last-full.json"

_LIBRARIES: Final = ("requirements/", "pyproject.toml")
_INJECTOR: Final = ("injector/", "barrier/", "kube/", "charts/", "tools/localcluster/")
_BARRIER: Final = ("barrier/", "controller/frameworkcontroller/core/gang/", "tools/localcluster/")
_ENGINE: Final = ("kube/", "controller/frameworkcontroller/engine/", "tools/localcluster/")
_LIVES: Final = ("controller/", "kube/", "charts/", "tools/localcluster/", "tools/testkit/", "tests/support/")
_NODE: Final = (*_LIVES, "barrier/", "injector/", "images/")
_EXAMPLES: Final = ("examples/", "tools/frameworkdemo/", "images/", "barrier/frameworkbarrier/presets/")
_HISTORY: Final = (
    *("history/", "kube/", "controller/frameworkcontroller/api/"),
    *("client/frameworkclient/views/", "client/frameworkclient/diagnosis/", "client/frameworkclient/logs/"),
)
# By the beginning of a module's path: the beginnings of the paths that it watches, beside its own folder.
WATCHED: Final[Mapping[str, tuple[str, ...]]] = {
    "tests/localcluster/": ("tools/localcluster/", "images/", "requirements/"),
    # The other tests of releases find, in seconds, what was not made again after a change of a program.
    "tests/release/test_operations.py": (
        *("tools/frameworkrelease/", "charts/", "deploy/", "kustomize/", "docs/operate/"),
    ),
    "tests/release/test_chart": (
        *("tools/frameworkrelease/", "charts/", "deploy/", "kustomize/", "docs/"),
        *("controller/frameworkcontroller/engine/config/settings.py", "injector/frameworkinjector/review/config.py"),
        *("tests/release/cases/", "tests/release/manifests.py"),
    ),
    "tests/release/test_permissions.py": ("tools/frameworkrelease/", "charts/", "docs/operate/"),
    "tests/release/test_matrix.py": (
        *(
            "tools/frameworkrelease/",
            "tools/localcluster/",
            "docs/operate/",
            "tests/conftest.py",
            "tests/support/versions.py",
        ),
    ),
    "tests/release/test_artefacts.py": (
        *("tools/frameworkrelease/", "tools/localcluster/", "images/", "requirements/", "pyproject.toml"),
    ),
    "tests/history/": (*_HISTORY, *_LIBRARIES),
    "tests/apiserver/history/": (*_HISTORY, "client/", "charts/"),
    "tests/e2e/history/": (*_HISTORY, "client/", "charts/", "images/history/", "tools/localcluster/"),
    "tests/monitoring/": ("charts/", "docs/operate/"),
    "tests/demo/": ("tools/frameworkdemo/", "examples/", "client/", "charts/", "deploy/"),
    "tests/e2e/demo/test_endings.py": ("tools/frameworkdemo/", "examples/tensorflow/", "client/"),
    "tests/e2e/test_chart.py": ("charts/", "deploy/"),
    "tests/e2e/client/test_code.py": ("client/", "barrier/frameworkbarrier/presets/"),
    "tests/apiserver/operate/test_audit_policy.py": ("docs/operate/", "charts/"),
    "tests/e2e/client/test_docs.py": ("docs/cli.md", "client/", "tests/support/console.py", "tests/support/pages.py"),
    "tests/e2e/client/test_quickstart.py": (
        *("docs/quickstart.md", "docs/operate/install.md", "client/", "tests/support/console.py"),
        "tests/support/pages.py",
    ),
    "tests/e2e/examples/": _EXAMPLES,
    "tests/cost/test_costs.py": (
        *("controller/", "injector/", "barrier/", "kube/", "client/frameworkclient/logs/", "tests/cost/"),
        *("client/frameworkclient/views/text.py", "client/frameworkclient/cli/commands/log_output.py", *_LIBRARIES),
    ),
    "tests/controller/core/reconcile/test_runs.py": ("controller/", "barrier/", "tests/controller/", *_LIBRARIES),
    "tests/injector/serving/": ("injector/", "kube/", "tests/injector/", *_LIBRARIES),
    "tests/barrier/source/": ("barrier/", "tests/barrier/", *_LIBRARIES),
    "tests/barrier/test_main.py": ("barrier/", "tests/barrier/", *_LIBRARIES),
    "tests/kube/informer/": ("kube/", "controller/frameworkcontroller/api/", "tests/kube/", *_LIBRARIES),
    "tests/kube/election/": ("kube/", "tests/kube/", *_LIBRARIES),
    "tests/apiserver/injector/": _INJECTOR,
    "tests/apiserver/barrier/": _BARRIER,
    "tests/e2e/gangs/test_startup_probe.py": (*_BARRIER, *_INJECTOR),
    "tests/e2e/gangs/test_sidecar.py": (*_BARRIER, *_INJECTOR),
    "tests/apiserver/gangs/": _LIVES,
    "tests/apiserver/others/": _LIVES,
    "tests/apiserver/controller/test_chaos.py": _LIVES,
    "tests/apiserver/controller/test_crashes.py": _LIVES,
    "tests/apiserver/controller/test_faults.py": _LIVES,
    "tests/apiserver/controller/test_history_hold.py": (*_LIVES, "history/"),
    "tests/e2e/client/test_user_guide.py": (
        *(*_NODE, "docs/user-guide.md", "client/", "tests/support/console.py", "tests/support/pages.py"),
    ),
    "tests/e2e/gangs/test_pod_environment.py": _NODE,
    "tests/e2e/gangs/test_restart.py": _NODE,
    "tests/e2e/gangs/test_exit.py": _NODE,
    "tests/e2e/gangs/test_hang.py": _NODE,
    "tests/apiserver/controller/test_election.py": _ENGINE,
    "tests/apiserver/controller/test_etcd_restored.py": _ENGINE,
    "tests/apiserver/operate/test_migration": ("controller/frameworkcontroller/api/", "charts/", "docs/migrate/"),
}
ALWAYS: Final = (
    *("controller/", "injector/", "barrier/", "kube/", "client/", "tests/", "tools/bench/", "tools/testkit/"),
    *(".github/", "pyproject.toml", "Makefile"),
)
NOBODY: Final = (
    "docs/",
    *("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "LICENSE"),
    *(".ci/", ".dockerignore", ".editorconfig", ".gitignore", ".pre-commit-config.yaml"),
    RECORD,
)
_UNREAD: Final = {".git", ".venv", ".hypothesis", "__pycache__", "build", "dist"}


def tree(root: Path = ROOT) -> dict[str, str]:
    """Return the hash of each file by its path; what is built and hidden caches are no part of the tree."""
    found = {}
    for folder, folders, files in os.walk(root):
        folders[:] = [one for one in folders if one not in _UNREAD and not one.endswith("_cache")]
        for name in files:
            path = Path(folder, name)
            if path.is_file() and name not in _UNREAD:
                found[str(path.relative_to(root))] = hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()
    return found


def hashes(files: Mapping[str, str]) -> dict[str, str]:
    """Return one hash for all files under each path that is watched."""
    found = {}
    for watched in {path for group, paths in WATCHED.items() for path in (group, *paths)}:
        under = sorted((path, digest) for path, digest in files.items() if path.startswith(watched))
        found[watched] = hashlib.blake2b(json.dumps(under).encode(), digest_size=16).hexdigest()
    return dict(sorted(found.items()))


def left_out(modules: Iterable[str], files: Mapping[str, str], record: Mapping[str, str] | None) -> set[str]:
    """Return the modules that need not run.

    Args:
        modules: their paths.
        files: the hash of each file of the tree.
        record: the hashes of the watched paths when all tests were green, None if that is not known.
    """
    now = hashes(files)
    if record is None or any(not path.startswith((*now, *ALWAYS, *NOBODY)) for path in files):
        return set()
    same = {path for path, digest in now.items() if record.get(path) == digest}
    quiet = [group for group, paths in WATCHED.items() if same.issuperset((group, *paths))]
    return {module for module in modules if module.startswith(tuple(quiet))}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave them out."""
    record = ROOT / RECORD
    if os.environ.get("EVERYTHING") or not record.exists():
        return
    modules = {item.nodeid.partition("::")[0] for item in items}
    out = left_out(modules, tree(), json.loads(record.read_text()))
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid.partition("::")[0] in out])
    items[:] = [item for item in items if item.nodeid.partition("::")[0] not in out]


if __name__ == "__main__":
    (ROOT / RECORD).write_text(json.dumps(hashes(tree()), indent=1) + "\n")
