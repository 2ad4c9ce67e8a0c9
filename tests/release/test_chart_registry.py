"""The chart travels in an OCI registry: a real one on loopback."""

from __future__ import annotations

import os
import subprocess
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

import pytest

from frameworkrelease import chart
from frameworkrelease.chart import CHART
from localcluster.packages import require
from localcluster.ports import free_port
from localcluster.progress import Lines
from localcluster.waiting import eventually, patience

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# The registry is a package of the distribution, which only root can install.
pytestmark = [pytest.mark.chart, pytest.mark.node]


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[str]:
    """The address of an empty registry, without TLS."""
    require(("docker-registry",), Lines())
    address = f"127.0.0.1:{free_port()}"
    settings = tmp_path / "registry.yml"
    settings.write_text(
        f"version: 0.1\nlog: {{level: error}}\nhttp: {{addr: '{address}'}}\n"
        f"storage: {{filesystem: {{rootdirectory: {tmp_path / 'registry'}}}}}\n"
    )
    with (tmp_path / "registry.log").open("wb") as log:
        process = subprocess.Popen(["docker-registry", "serve", str(settings)], stdout=log, stderr=log)

    def answers() -> None:
        assert process.poll() is None, (tmp_path / "registry.log").read_text()
        try:
            urllib.request.urlopen(f"http://{address}/v2/", timeout=patience(5)).close()
        except urllib.error.URLError as error:
            raise AssertionError(str(error)) from error

    try:
        eventually(answers, 30)
        yield address
    finally:
        process.terminate()
        process.wait(patience(10))


def test_a_chart_that_was_pushed_and_pulled_renders_the_same(
    registry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind in ("CACHE", "CONFIG", "DATA"):
        monkeypatch.setitem(os.environ, f"HELM_{kind}_HOME", str(tmp_path / kind))
    chart.helm("package", str(CHART), f"--destination={tmp_path}")
    (archive,) = tmp_path.glob("frameworkcontroller-*.tgz")
    version = archive.stem.removeprefix("frameworkcontroller-")
    chart.helm("push", str(archive), f"oci://{registry}/charts", "--plain-http")
    pulled = tmp_path / "pulled"
    pulled.mkdir()
    name = f"oci://{registry}/charts/frameworkcontroller"
    chart.helm("pull", name, f"--version={version}", "--plain-http", f"--destination={pulled}")
    assert chart.rendered(chart=next(pulled.glob("*.tgz"))) == chart.rendered()
