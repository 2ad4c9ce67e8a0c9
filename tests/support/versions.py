"""A pytest plugin for tests that need a newer Kubernetes than some that are supported.

`@pytest.mark.requires_kubernetes("1.34", "the API server streams lists by default")` says so. On an older version
the test is not applicable: it counts as such, with its reason, in pytest's summary and in the JUnit report, from which
`make matrix` makes the page of supported versions. On the newest version, that of CI, every test is applicable.
"""

from collections import Counter
from collections.abc import Sequence

import pytest

from frameworkrelease.generate.matrix import NOT_APPLICABLE
from localcluster.errors import SetupError
from localcluster.programs.binaries import kubernetes_version
from localcluster.programs.catalogue import minor_of, pinned_version

MARK = "requires_kubernetes"
_CATEGORY = "not applicable"


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark."""
    config.addinivalue_line(
        "markers", f'{MARK}(version, what): not applicable before this version, such as "1.36", which brought something'
    )


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """Leave out the tests that need a newer version than this session's.

    Raises:
        pytest.UsageError: A test needs more than the newest version, so that no run would ever include it; or the
            version that was asked for is none.
    """
    for item in items:
        for mark in item.iter_markers(MARK):
            version, what = mark.args
            if minor_of(version) > minor_of(pinned_version("kubernetes")):
                raise pytest.UsageError(
                    f"{item.nodeid} needs Kubernetes {version}, but the newest that the tests run on is"
                    f" {pinned_version('kubernetes')}: no run would include it"
                )
            if minor_of(version) > minor_of(_version_of_the_session()):
                reason = f"needs Kubernetes {version}: {what}"
                item.user_properties.append((NOT_APPLICABLE, reason))
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(report: pytest.CollectReport | pytest.TestReport) -> tuple[str, str, str] | None:
    """Return a category of its own for what is not applicable: it is nothing that this machine lacks."""
    if isinstance(report, pytest.TestReport) and report.skipped and _reason(report):
        return _CATEGORY, "n", _CATEGORY.upper()
    return None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was not applicable, and why."""
    reasons = Counter(_reason(report) for report in terminalreporter.stats.get(_CATEGORY, []))
    if reasons:
        terminalreporter.section(f"{_CATEGORY} on Kubernetes {_version_of_the_session()}")
        for reason, count in sorted(reasons.items()):
            terminalreporter.write_line(f"{count}: {reason}")


def _reason(report: pytest.TestReport) -> str:
    return next((str(value) for name, value in report.user_properties if name == NOT_APPLICABLE), "")


def _version_of_the_session() -> str:
    try:
        return kubernetes_version(None)
    except SetupError as error:
        raise pytest.UsageError(str(error)) from error
