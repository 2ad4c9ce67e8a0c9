"""The demo on its own real node where it does not go as it should, and its removal."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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


def variant(folder: Path, **container: Any) -> Path:
    """Write the example's Framework with other fields in its containers, and return the file."""
    framework = yaml.safe_load(manifests.FRAMEWORK.read_text())
    for role in framework["spec"]["taskRoles"]:
        role["task"]["pod"]["spec"]["containers"][0].update(container)
    framework["spec"]["retryPolicy"] = {"fancyRetryPolicy": False, "maxRetryCount": 0}
    file = folder / "framework.yaml"
    file.write_text(yaml.safe_dump(framework))
    return file


# Fails unless TensorFlow reads the content of the roster from TF_CONFIG.
RESOLVES = """
import json, os
import tensorflow as tf
found = tf.distribute.cluster_resolver.TFConfigClusterResolver()
with open("/mnt/frameworkbarrier/roster.json") as file:
    roles = json.load(file)["taskRoles"]
addresses = {role["name"]: [f"{task[1]}:2222" for task in role["tasks"]] for role in roles}
assert len(addresses.pop("evaluator")) == 1
assert found.cluster_spec().as_dict() == addresses, (found.cluster_spec(), addresses)
own = os.environ["FC_TASKROLE_NAME"], int(os.environ["FC_TASK_INDEX"])
assert (found.task_type, found.task_id) == own, (found.task_type, found.task_id)
print("resolved", *addresses)
"""


def test_tensorflow_resolves_the_cluster_and_its_own_task_from_tf_config_also_as_ps_and_evaluator(
    name: str, tmp_path: Path
) -> None:
    file = variant(tmp_path, command=["python3", "-c", RESOLVES])
    framework = yaml.safe_load(file.read_text())
    chief, worker = framework["spec"]["taskRoles"]
    others = [{**worker, "name": name, "taskNumber": 1} for name in ("worker", "ps", "evaluator")]
    framework["spec"]["taskRoles"] = [chief, *others]
    file.write_text(yaml.safe_dump(framework))
    done = finished(name, "--framework", str(file))
    assert done.returncode == 0
    assert "chief-0 | resolved chief worker ps" in done.stdout


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
    script = "import sys; print('the data is not there'); sys.exit(7)"
    done = finished(name, "--framework", str(variant(tmp_path, command=["python3", "-c", script])))
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
