"""What the recording shows: a gang that cannot start, why, and how it starts after all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

COLUMNS, LINES = 100, 32
TITLE: Final = (
    "A terminal: frameworkctl runs a gang of three Pods. frameworkctl list shows that one Task holds the others up, "
    "frameworkctl why says that no node has enough free CPU for it. frameworkctl scale reduces the gang to two Tasks, "
    "frameworkctl watch shows how they train, until the Framework has succeeded and is deleted."
)
PROGRAM: Final = """\
import os, time

rank, size = os.environ["RANK"], os.environ["WORLD_SIZE"]
for step in range(1, 6):
    time.sleep(1)
    print(f"rank {rank} of {size}, master {os.environ['MASTER_ADDR']}: step {step}", flush=True)
"""
"""`train.py`: it shows what a preset gives to a program."""


@dataclass(frozen=True)
class Step:
    """A command.

    Attributes:
        command: What is typed.
        after: What `frameworkctl list` must show before.
        pause: Seconds for those who read the output.
    """

    command: str
    after: str = ""
    pause: float = 1.8


STEPS: Final = (
    Step(
        "frameworkctl run training --image frameworkcontroller/barrier:dev --preset pytorch \\\n"
        '  --role worker=3 --cpu 800m -- python3 -c "$(cat train.py)"',
        pause=0.8,
    ),
    Step("frameworkctl list", after="2/3"),
    Step("frameworkctl why training", pause=2.5),
    Step("frameworkctl scale training worker=2", pause=0.8),
    Step("frameworkctl watch training"),
    Step("frameworkctl list"),
    Step("frameworkctl delete training --wait", pause=0.5),
)
