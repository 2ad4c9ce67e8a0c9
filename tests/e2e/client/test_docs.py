"""The commands of docs/cli.md print what the page says."""

import sys
from pathlib import Path

import pytest

from tests.support.console import check, steps

pytestmark = pytest.mark.node
DOCS = Path(__file__).parents[3] / "docs"


def test_every_command_of_the_page_prints_what_it_says(
    installed: None, namespace: str, kubeconfig: Path, tmp_path: Path
) -> None:
    """A release for one namespace would be another one for `doctor`."""
    environ = {"KUBECONFIG": str(kubeconfig), "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}
    count = 0
    for step in steps(DOCS / "cli.md", tmp_path):
        count += 1
        check(step, tmp_path, environ, {namespace: "demo"})
    assert count >= 20
