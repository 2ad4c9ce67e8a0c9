"""The examples of programs that say themselves how far they are, and what their sidecar hears of them."""

import os
import subprocess
import time
from pathlib import Path

import pytest

from frameworkbarrier.health.pod import Pod
from frameworkbarrier.health.pulse import Limits
from tests.barrier.packages import python_with

EXAMPLES = Path(__file__).parents[3] / "examples" / "progress"


@pytest.mark.long
@pytest.mark.parametrize(
    ("program", "package", "steps"), [("train_keras.py", "tensorflow-cpu", 500), ("train_jax.py", "jax", 200)]
)
def test_a_training_says_its_steps_and_its_loss(program: str, package: str, steps: int, tmp_path: Path) -> None:
    pod, seen = Pod(str(tmp_path), Limits(floor=120, factor=8, first=1800)), [0]
    with python_with(package) as python:
        environ = os.environ | {"FB_PROGRESS": f"{tmp_path}/rank"}
        with subprocess.Popen([python, EXAMPLES / program], env=environ, stdout=subprocess.PIPE, text=True) as training:
            while training.poll() is None:
                pod.look(time.monotonic())
                if (answer := pod.answer(time.monotonic())) is not None:
                    seen.append(answer.step or 0)
                time.sleep(0.01)
            assert training.stdout is not None
            assert training.stdout.read().splitlines()[-1].startswith("found y = ")
    assert training.returncode == 0
    pod.look(time.monotonic())
    assert (last := pod.answer(time.monotonic())) is not None
    assert (last.step, last.section, last.processes) == (steps, "", 1)
    assert seen == sorted(seen)
    assert len(set(seen)) > 2, "it was seen to grow"
    assert pod.numbers().keys() == {"loss"}
    assert 0 < pod.numbers()["loss"] < 0.1
