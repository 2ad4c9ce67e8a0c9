"""The user guide works as typed: its files are written, its commands run, one after the other, on simulated nodes."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from localcluster import binaries
from localcluster.progress import Silent
from support.definition import apply_definition
from support.frameworks import ControllerProcess, apply_rights
from support.raw import Raw

if TYPE_CHECKING:
    from localcluster import Cluster

pytestmark = pytest.mark.apiserver
GUIDE = Path(__file__).parent.parent.parent / "docs" / "user-guide.md"
BLOCKS = re.compile(r"(?:<!-- file: (?P<file>\S+) -->\n)?```(?P<kind>\w*)\n(?P<text>.*?)```", re.DOTALL)


def test_every_command_of_the_guide_works(kwok_cluster: Cluster, tmp_path: Path) -> None:
    raw = Raw(kwok_cluster)
    apply_definition(raw)
    apply_rights(kwok_cluster)
    namespace = "user-guide"
    kwok_cluster.kubectl("create", "namespace", namespace)
    kubectl = binaries.find("kubectl", kubernetes=kwok_cluster.version, progress=Silent())
    kubeconfig = tmp_path / "user.kubeconfig"
    kubeconfig.write_text(kwok_cluster.kubeconfig.read_text())
    environment = os.environ | {"KUBECONFIG": str(kubeconfig), "PATH": f"{kubectl.parent}:{os.environ['PATH']}"}
    subprocess.run(
        [kubectl, "config", "set-context", "--current", f"--namespace={namespace}"], env=environment, check=True
    )
    controller = ControllerProcess(kwok_cluster, tmp_path, {"namespace": namespace})
    controller.start()
    commands = 0
    try:
        for block in BLOCKS.finditer(GUIDE.read_text()):
            if block["file"]:
                (tmp_path / block["file"]).write_text(block["text"])
            elif block["kind"] == "sh":
                commands += 1
                done = subprocess.run(
                    ["bash", "-euo", "pipefail", "-c", block["text"]],
                    cwd=tmp_path,
                    env=environment,
                    capture_output=True,
                    text=True,
                    check=False,
                )
                assert done.returncode == 0, f"{block['text']}\n{done.stdout}\n{done.stderr}\n{controller.log[-3000:]}"
    finally:
        controller.stop()
        raw.delete(f"/api/v1/namespaces/{namespace}")
        raw.close()
    assert commands >= 8
    assert ": OnTaskDeletion: ObjectSnapshot: {" in controller.log
    assert ": OnFrameworkDeletion: ObjectSnapshot: {" in controller.log
    assert ": OnPodDeletion: ObjectSnapshot: {" in controller.log
