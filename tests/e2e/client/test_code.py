"""A script of this machine runs in a gang, in a namespace of restricted Pods and an image without a shell."""

from pathlib import Path

import pytest
import yaml

from localcluster import Cluster
from localcluster.client import RawClient
from testkit.frameworks import Frameworks
from tests.support.frameworkctl import Frameworkctl

pytestmark = pytest.mark.node
SCRIPT = """
import os, pathlib, sys
import lib
print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], lib.NAME, sys.argv[1:], sorted(os.listdir()))
pathlib.Path("written").touch()
sys.exit(0 if int(os.environ["FC_FRAMEWORK_ATTEMPT_ID"]) else 1)
"""


def test_a_script_finds_its_files_in_each_attempt(
    cluster: Cluster, raw: RawClient, frameworks: Frameworks, namespace: str, tmp_path: Path
) -> None:
    raw.merge(
        f"/api/v1/namespaces/{namespace}",
        {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}},
    )
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "lib.py").write_text('NAME = "ours"')
    (tmp_path / ".env").write_text("SECRET=1")
    ctl = Frameworkctl(cluster.kubeconfig, namespace, tmp_path)
    made = yaml.safe_load_all(ctl.ok("run scripted --image i --workdir . --dry-run").output)
    assert [one["kind"] for one in made] == ["Framework", "ConfigMap"]
    image = "docker.io/frameworkcontroller/barrier:dev"
    flags = "--role worker=2 --preset pytorch --restricted --user 1234 --retries 1 --retain-pods Always --wait"
    files = "--workdir . --script train.py -- --epochs 3"
    done = ctl.ok("run scripted --image", image, *flags.split(), *files.split())
    assert "code: 2 files, " in done.errors
    assert "left out: .env" in done.errors
    files = "['.frameworkcode', 'lib.py', 'train.py']"
    assert sorted(ctl.ok("logs scripted").output.splitlines()) == [
        f"[worker-{rank}] rank {rank} of 2 ours ['--epochs', '3'] {files}" for rank in range(2)
    ]
    assert frameworks.status("scripted")["attemptStatus"]["id"] == 1
