"""The commands of docs/cli.md print what the page says."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from testkit.waiting import eventually
from tests.support.console import Step, matches, run, steps

if TYPE_CHECKING:
    from localcluster import Cluster
    from testkit.frameworks import Frameworks

pytestmark = pytest.mark.node
DOCS = Path(__file__).parents[2] / "docs"
# What only looks may be repeated until it sees what it should.
LOOKS = re.compile(r"frameworkctl (list|describe|logs|why|get|events) ")


def test_every_command_of_the_page_prints_what_it_says(
    cluster: Cluster, frameworks: Frameworks, namespace: str, tmp_path: Path
) -> None:
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    for context in config["contexts"]:
        context["context"]["namespace"] = namespace
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(config))
    programs = Path(sys.executable).parent
    environ = {"KUBECONFIG": str(tmp_path / "kubeconfig"), "PATH": f"{programs}:/usr/bin:/bin"}
    names = {namespace: "demo"}
    count = 0

    def check(step: Step) -> None:
        printed = run(step, tmp_path, environ)
        assert matches(printed, step.output, names), f"$ {step.command}\n{printed}\nbut the page says\n{step.output}"

    for step in steps(DOCS / "cli.md", tmp_path):
        count += 1
        if LOOKS.search(f"{step.command} "):
            eventually(lambda step=step: check(step), timeout=30, interval=0.5)  # type: ignore[misc]  # of this round
        else:
            check(step)
    assert count >= 20
