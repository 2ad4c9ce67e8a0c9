"""One suite on one version of Kubernetes: the programs of that version, pytest, and what came of it."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Final

from frameworkrelease.chart import REPOSITORY
from frameworkrelease.matrix import junit, page, results
from frameworkrelease.matrix.results import Run, Suite
from frameworkrelease.provenance import commit
from localcluster import binaries
from localcluster.progress import Lines

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SELECTION: Final = {Suite.API_SERVER: "apiserver and not long", Suite.END_TO_END: "node and not long"}
"""What pytest selects for a suite: the same as `make test-apiserver` and `make test-e2e`."""
_PROGRAMS: Final = {
    Suite.API_SERVER: ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "etcd", "kwok"),
    Suite.END_TO_END: ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "etcd", "kubelet",
                       "kube-proxy", "coredns"),
}  # fmt: skip
# Exit codes of pytest: all tests have passed, or some have failed.
_COMPLETE: Final = (0, 1)


class MatrixError(Exception):
    """A run that says nothing about the version: pytest could not start or was interrupted."""


def run(
    suite: Suite,
    kubernetes: str,
    files: Sequence[str],
    arguments: Sequence[str],
    environ: Mapping[str, str] = os.environ,
) -> Run:
    """Build what is missing, run the tests, and return what came of it.

    Args:
        suite: What to run.
        kubernetes: The version, without `v`.
        files: The files and folders of tests; none: the whole suite.
        arguments: More arguments of pytest.
        environ: The environment.

    Raises:
        BinaryError: A program cannot be built.
        MatrixError: pytest did not get to its end.
    """
    for program in _PROGRAMS[suite]:
        binaries.find(program, kubernetes=kubernetes, progress=Lines(quiet_seconds=10), environ=environ)
    began, start = datetime.now(UTC), time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        pytest = Path(sys.executable).with_name("pytest")
        command = [str(pytest), "-m", SELECTION[suite], f"--junitxml={report}", *arguments, *(files or ["tests"])]
        # A test that this machine cannot run is a failure.
        environment = {**environ, "KUBERNETES": kubernetes, "FRAMEWORKCONTROLLER_REQUIRE_CLUSTER": "1"}
        code = subprocess.run(command, cwd=REPOSITORY, env=environment, check=False).returncode
        if code not in _COMPLETE:
            raise MatrixError(f"`{' '.join(command)}` ended with {code} on Kubernetes {kubernetes}: see above")
        found = junit.counts(report.read_text())
    return Run(
        kubernetes=kubernetes,
        suite=suite,
        files=tuple(files),
        date=began.date().isoformat(),
        project=metadata.version("frameworkcontroller"),
        commit=commit(results.FILE, page.FILE),
        machine=platform.machine(),
        python=platform.python_version(),
        minutes=round((time.monotonic() - start) / 60),
        passed=found.passed,
        failed=found.failed,
        not_applicable=dict(found.not_applicable),
        skipped=dict(found.skipped),
    )
