"""The fixture of promtool."""

from __future__ import annotations

import pytest

from localcluster import SetupError, packages
from tests.support.clusters import is_required


@pytest.fixture(scope="session")
def promtool() -> str:
    """Install promtool if it is missing; without root its tests are skipped, or fail where a cluster is required."""
    try:
        packages.require(["promtool"])
    except SetupError as error:
        if is_required():
            raise
        pytest.skip(str(error))
    return "promtool"
