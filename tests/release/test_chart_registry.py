"""The chart travels in an OCI registry: a real one on loopback."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from frameworkrelease import chart
from frameworkrelease.artefacts import registry
from frameworkrelease.chart import CHART

if TYPE_CHECKING:
    from pathlib import Path

# The registry is a package of the distribution, which only root can install.
pytestmark = [pytest.mark.chart, pytest.mark.node]


def test_a_chart_that_was_pushed_and_pulled_renders_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in ("CACHE", "CONFIG", "DATA"):
        monkeypatch.setitem(os.environ, f"HELM_{kind}_HOME", str(tmp_path / kind))
    chart.helm("package", str(CHART), f"--destination={tmp_path}")
    (archive,) = tmp_path.glob("frameworkcontroller-*.tgz")
    version = archive.stem.removeprefix("frameworkcontroller-")
    pulled = tmp_path / "pulled"
    pulled.mkdir()
    with registry.on_loopback(tmp_path) as address:
        chart.helm("push", str(archive), f"oci://{address}/charts", "--plain-http")
        name = f"oci://{address}/charts/frameworkcontroller"
        chart.helm("pull", name, f"--version={version}", "--plain-http", f"--destination={pulled}")
    assert chart.rendered(chart=next(pulled.glob("*.tgz"))) == chart.rendered()
