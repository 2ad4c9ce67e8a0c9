"""The support matrix: the page is what the results say, and the results are what pytest reported."""

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from unittest.mock import Mock

import pytest

from frameworkrelease.__main__ import main
from frameworkrelease.chart import REPOSITORY
from frameworkrelease.commands import ReleaseError
from frameworkrelease.generate import matrix, performance
from frameworkrelease.generate.matrix import PAGE, SELECTION, planned, replaced, results, tables
from localcluster.programs.catalogue import BUILDABLE, minor_of, pinned_version

OLDEST, NEWEST = min(BUILDABLE, key=minor_of), pinned_version("kubernetes")
RUN = {"Kubernetes": OLDEST, "suite": "API server", "project": "0.1.0", "date": "2026-11-22", "commit": "0123456789ab"}
PASSED = {**RUN, "result": "passed", "tests": "7"}


# --- the page --------------------------------------------------------------------------------------------------------


def test_each_kept_result_is_one_that_the_matrix_runs() -> None:
    assert {(one["Kubernetes"], one["suite"]) for one in performance.read(matrix.FILE)} <= set(planned())


def test_the_page_of_a_version_and_the_chart_promise_the_same_oldest_version() -> None:
    oldest = OLDEST.rpartition(".")[0]
    assert f'kubeVersion: ">={oldest}.0-0"' in (REPOSITORY / "charts/frameworkcontroller/Chart.yaml").read_text()
    assert f"Kubernetes {oldest} to {NEWEST.rpartition('.')[0]}" in PAGE.read_text()


def test_the_page_says_above_the_runs_of_which_versions_they_are() -> None:
    versions = sorted({one["project"] for one in performance.read(matrix.FILE)})
    assert f"The runs are of {' and '.join(versions)}, " in PAGE.read_text()


def test_what_never_ran_is_shown() -> None:
    lines = list(tables([PASSED]))
    assert f"| {OLDEST} | API server | 7 passed, 0 failed | 2026-11-22 | 0.1.0, `0123456789ab` |" in lines
    assert f"| {NEWEST} | API server | not run |  |  |" in lines
    assert f"| {NEWEST} | end to end | not run |  |  |" in lines
    assert f"| {OLDEST} | end to end |" not in "\n".join(lines)


def test_what_is_not_applicable_has_failed_or_was_left_out_is_named() -> None:
    found = [
        ("failed", "tests.a::b", "1"), ("not applicable", "needs Kubernetes 1.36: x", "3"), ("passed", "", "7"),
        ("skipped", "no root", "2"),
    ]  # fmt: skip
    text = "\n".join(tables([{**RUN, "result": word, "of": of, "tests": n} for word, of, n in found]))
    assert "7 passed, 1 failed, 3 not applicable, 2 skipped" in text
    assert f"| needs Kubernetes 1.36: x | {OLDEST} | 3 |" in text
    for about in ("failed:\n\n- `tests.a::b`", "skipped:\n\n- `no root`"):
        assert f"{OLDEST}, API server, {about}" in text


# --- the results -----------------------------------------------------------------------------------------------------


def test_a_new_run_takes_the_place_of_the_last_one_of_its_kind() -> None:
    failed = {**RUN, "result": "failed", "of": "a::b", "tests": "1"}
    other, new = {**PASSED, "Kubernetes": NEWEST}, {**PASSED, "tests": "8"}
    assert replaced([failed, PASSED, other], [new]) == [other, new]


@pytest.mark.parametrize(("word", "code"), [("passed", 0), ("not applicable", 0), ("skipped", 1), ("failed", 1)])
def test_a_run_is_kept_and_is_an_error_where_a_test_failed_or_the_machine_lacks_something(
    word: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, page = tmp_path / "support.csv", tmp_path / "releases.md"
    performance.write([{**PASSED, "Kubernetes": "1.33.13"}], file)
    page.write_text(PAGE.read_text())
    found = [{**PASSED, "of": "x", "result": word}]
    for name, value in {"FILE": file, "PAGE": page, "run": lambda *_: found}.items():
        monkeypatch.setattr(matrix, name, value)
    with pytest.raises(SystemExit) as ended:
        main(["matrix", OLDEST])
    assert ended.value.code == code
    assert performance.read(file)[1:] == found
    assert page.read_text() == matrix.page(PAGE.read_text(), performance.read(file))


def test_a_run_leaves_out_no_test_because_its_paths_have_not_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """71 tests of 220 ran on a version, and the table said that all had passed."""
    found: list[dict[str, str]] = []

    def ran(command: list[str], *, env: dict[str, str], **_: object) -> subprocess.CompletedProcess[bytes]:
        found.append(env)
        return subprocess.CompletedProcess(command, returncode=2)

    monkeypatch.setattr(matrix, "binaries", Mock())
    monkeypatch.setattr(matrix, "origin", lambda *_: {})
    monkeypatch.setattr(matrix.subprocess, "run", ran)
    with pytest.raises(ReleaseError, match="ended with 2"):
        matrix.run(matrix.API_SERVER, OLDEST, ())
    assert (found[0]["EVERYTHING"], found[0]["FRAMEWORKCONTROLLER_REQUIRE_CLUSTER"]) == ("1", "1")


def test_a_suite_is_what_its_target_of_make_runs() -> None:
    text = (REPOSITORY / "Makefile").read_text()
    for target, suite in (("test-apiserver", matrix.API_SERVER), ("test-e2e", matrix.END_TO_END)):
        assert re.search(rf'^{target}: .*\n\t\$\(BIN\)/pytest -m "{SELECTION[suite]}"$', text, re.MULTILINE)


# --- what pytest reports ---------------------------------------------------------------------------------------------

SAMPLE = """
    import pytest

    def test_passes(): pass

    def test_fails(): assert False

    @pytest.fixture
    def broken():
        yield
        raise ValueError

    def test_fails_twice(broken): assert False

    def test_fails_at_its_end(broken): pass

    @pytest.mark.parametrize("number", [1, pytest.param(2, marks=pytest.mark.requires_kubernetes("1.31", "two"))])
    def test_needs_something(number): pass

    @pytest.mark.requires_kubernetes("1.30", "what every version has")
    class TestOld:
        def test_passes(self): pass

    def test_skips(): pytest.skip("no root")
"""


def reported(
    folder: Path, sample: str, *arguments: str, kubernetes: str = "1.30"
) -> tuple[subprocess.CompletedProcess[str], Path]:
    """Run pytest on a file of tests in a process of its own."""
    (folder / "test_sample.py").write_text(textwrap.dedent(sample))
    report = folder / "report.xml"
    command = [
        sys.executable, "-m", "pytest", "-p", "tests.support.versions", "-p", "no:cacheprovider", "-c", os.devnull,
        f"--rootdir={folder}", f"--junitxml={report}", *arguments, str(folder),
    ]  # fmt: skip
    # The session that this test is part of may be one with workers.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment["KUBERNETES"] = kubernetes
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)
    return done, report


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["one process", "workers"])
def test_what_needs_a_newer_version_is_not_applicable_and_counts_on_its_own(
    tmp_path: Path, workers: tuple[str, ...]
) -> None:
    done, report = reported(tmp_path, SAMPLE, *workers)
    assert done.returncode == 1, done.stdout + done.stderr
    failed = ("test_fails", "test_fails_at_its_end", "test_fails_twice")
    assert [tuple(one.values()) for one in results(report.read_text())] == [
        *(("failed", f"test_sample::{name}", "1") for name in failed),
        ("not applicable", "needs Kubernetes 1.31: two", "1"),
        ("passed", "", "3"),
        ("skipped", "no root", "1"),
    ]
    assert "not applicable on Kubernetes 1.30.14" in done.stdout
    assert "1: needs Kubernetes 1.31: two" in done.stdout
    assert re.search(r"1 skipped.*1 not applicable", done.stdout)


def test_on_the_newest_version_everything_is_applicable(tmp_path: Path) -> None:
    done, report = reported(tmp_path, SAMPLE, kubernetes=NEWEST)
    assert {one["result"] for one in results(report.read_text())} == {"failed", "passed", "skipped"}
    assert "not applicable" not in done.stdout


def test_a_test_that_no_version_could_run_is_an_error(tmp_path: Path) -> None:
    done, _ = reported(tmp_path, SAMPLE.replace('"1.31"', '"1.99"'))
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "needs Kubernetes 1.99, but the newest that the tests run on is" in done.stderr
