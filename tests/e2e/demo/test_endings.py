"""The demo on its own real node where it does not go as it should, and its removal."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from frameworkdemo import manifests
from localcluster.cluster import settings
from tests.e2e.demo.cluster import REPOSITORY, command, demo_cluster, finished

pytestmark = pytest.mark.node


@pytest.fixture(scope="module")
def name() -> Iterator[str]:
    with demo_cluster("ends-node") as cluster:
        yield cluster


def test_an_interrupted_demo_says_how_to_continue_and_the_next_run_does(name: str) -> None:
    # A shell that runs the tests in the background makes them ignore SIGINT.
    listening = ["env", "--default-signal=INT", *command(name)]
    with subprocess.Popen(listening, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as interrupted:
        assert interrupted.stdout is not None
        lines = []
        for line in interrupted.stdout:
            lines.append(line)
            if "AttemptRunning" in line:
                interrupted.send_signal(signal.SIGINT)
                break
        lines += interrupted.stdout.readlines()
        print(*lines, sep="")
        assert interrupted.wait(timeout=300) == 130
    assert "`make demo` goes on from here, `make demo-down` removes it" in lines[-1]
    done = finished(name)
    assert done.returncode == 0
    assert "Completed, Succeeded" in done.stdout


def test_a_training_that_fails_fails_the_demo_with_the_end_of_its_log(name: str, tmp_path: Path) -> None:
    file, framework = tmp_path / "framework.yaml", yaml.safe_load(manifests.FRAMEWORK.read_text())
    framework["spec"]["retryPolicy"] = {"fancyRetryPolicy": False, "maxRetryCount": 0}
    fails = ["python3", "-c", "import sys; print('the data is not there'); sys.exit(7)"]
    for role in framework["spec"]["taskRoles"]:
        role["task"]["pod"]["spec"]["containers"][0]["command"] = fails
    file.write_text(yaml.safe_dump(framework))
    done = finished(name, "--framework", str(file))
    assert done.returncode == 1
    failure = done.stdout.partition("--- FAILED\n")[2]
    assert "Completed, ContainerUnrecognizedFailed (7)" in failure
    assert "the data is not there" in failure
    for word in ("why", "describe", "events"):
        assert f"$ frameworkctl {word} spirals -n demo\n" in done.stdout
    assert "--- log of frameworkcontroller\n" in done.stdout


def test_down_leaves_nothing_and_can_be_repeated(name: str) -> None:
    for _ in range(2):
        assert finished(name, "down").returncode == 0
        assert not settings.state_folder(name).exists()
    assert not [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if f"/clusters/{name}/" in line]


def test_a_demo_on_a_context_that_does_not_exist_fails_with_its_name(tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text('{"apiVersion": "v1", "kind": "Config", "contexts": [], "clusters": [], "users": []}')
    arguments = [sys.executable, "-m", "frameworkdemo", "--context", "nowhere", "--kubeconfig", str(file)]
    done = subprocess.run(arguments, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "")
    assert 'context "nowhere" does not exist' in done.stdout
