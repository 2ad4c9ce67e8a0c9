"""The progress of the example, trained by the PyTorch of the package index: a rank that stops is seen by its peers."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from frameworkbarrier.files import render
from testkit.waiting import eventually
from tests.barrier.packages import python_with
from tests.support.waiting import becomes

pytestmark = pytest.mark.long

FILES = Path(render.__file__).parent
TRAIN = Path(__file__).parents[3] / "examples" / "progress" / "train.py"


@pytest.fixture(scope="module")
def python() -> Iterator[Path]:
    """An interpreter with PyTorch."""
    with python_with("torch", "numpy") as found:
        yield found


class Job:
    """Two ranks that `torchrun` has started."""

    def __init__(self, python: Path, folder: Path, steps: int) -> None:
        self.folder = folder / "progress"
        self.folder.mkdir(exist_ok=True)
        environ = {
            "PYTHONPATH": f"{FILES}",
            "FB_PROGRESS": f"{self.folder}/rank",
            "FB_PROGRESS_TORCH": "1",
            "FB_PROGRESS_STACK_SEC": "2",
            "CHECKPOINT": f"{folder}/last.pt",
            "STEPS": str(steps),
        }
        command = [python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", TRAIN]
        self.process = subprocess.Popen(command, env=os.environ | environ, stdout=subprocess.PIPE, text=True)

    def reports(self) -> dict[int, dict[str, Any]]:
        """What the ranks say, by process."""
        found = [file for file in self.folder.iterdir() if not file.suffix.endswith("stack")]
        # A file is there before its first report.
        return {int(file.suffix[1:]): json.loads(text) for file in found if (text := file.read_text())}

    def stacks(self, number: int) -> str:
        return (self.folder / f"rank.{number}.stack").read_text()

    def ends(self) -> str:
        text, _ = self.process.communicate(timeout=120)
        assert self.process.returncode == 0
        return text


def test_ranks_report_steps_checkpoints_and_stacks_and_go_on_from_a_checkpoint(python: Path, tmp_path: Path) -> None:
    job = Job(python, tmp_path, 120)

    def saved() -> None:
        reports = job.reports().values()
        assert [each["step"] > 60 for each in reports] == [True, True]
        assert sorted(each.get("checkpoint", 0) for each in reports) == [0, 50]

    eventually(saved, timeout=120)
    waits, stops = sorted(job.reports(), key=lambda number: "checkpoint" not in job.reports()[number])
    os.kill(stops, signal.SIGSTOP)

    def hangs() -> None:
        assert f"Thread {job.reports()[waits]['thread']} (most recent call first)" in job.stacks(waits)
        assert "in backward" in job.stacks(waits)

    eventually(hangs, timeout=30)
    steps = [job.reports()[number]["step"] for number in (waits, stops)]
    assert abs(steps[0] - steps[1]) <= 1
    os.kill(stops, signal.SIGCONT)
    becomes(lambda: job.stacks(waits), "", timeout=30)
    assert "rank 1 of 2 begins after step 0" in job.ends()
    assert not job.reports()
    assert "rank 0 of 2 begins after step 100" in Job(python, tmp_path, 105).ends()
