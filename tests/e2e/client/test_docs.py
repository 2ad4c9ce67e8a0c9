"""The commands of docs/cli.md print what the page says."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from testkit.waiting import eventually
from tests.support.console import Step, matches, run, steps

if TYPE_CHECKING:
    from testkit.frameworks import Frameworks

pytestmark = pytest.mark.node
DOCS = Path(__file__).parents[3] / "docs"
# What only looks may be repeated until it sees what it should.
LOOKS = re.compile(r"frameworkctl (list|describe|logs|why|get|events) ")


def test_every_command_of_the_page_prints_what_it_says(
    frameworks: Frameworks, kubeconfig: Path, tmp_path: Path
) -> None:
    environ = {"KUBECONFIG": str(kubeconfig), "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}
    names = {frameworks.namespace: "demo"}

    def check(step: Step) -> None:
        printed = run(step, tmp_path, environ)
        assert matches(printed, step.output, names), f"$ {step.command}\n{printed}\nbut the page says\n{step.output}"

    count = 0
    for step in steps(DOCS / "cli.md", tmp_path):
        count += 1
        if LOOKS.search(f"{step.command} "):
            eventually(lambda step=step: check(step), timeout=30, interval=0.5)  # type: ignore[misc]  # of this round
        else:
            check(step)
    assert count >= 20
