"""The user guide works as it is written: its files are written and its commands run in order, on a real node."""

import os
import subprocess
from pathlib import Path

import pytest

from localcluster import Cluster
from localcluster.programs import binaries
from tests.support.console import built_here
from tests.support.pages import blocks

pytestmark = pytest.mark.node


def test_every_command_of_the_guide_works(cluster: Cluster, installed: None, kubeconfig: Path, tmp_path: Path) -> None:
    kubectl = binaries.find("kubectl", kubernetes=cluster.version)
    environment = os.environ | {"KUBECONFIG": str(kubeconfig), "PATH": f"{kubectl.parent}:{os.environ['PATH']}"}
    commands = 0
    for block in blocks("docs/user-guide.md"):
        if block.file:
            (tmp_path / block.file).write_text(built_here(block.text))
        elif block.kind == "sh":
            commands += 1
            command = ["bash", "-euo", "pipefail", "-c", block.text]
            done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{block.text}\n{done.stdout}\n{done.stderr}"
    assert commands >= 12
