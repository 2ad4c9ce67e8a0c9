"""How fast the controller starts and ends Frameworks, compared with a bare concurrent loop that does the same to Pods.

Each row is made on a new local cluster with simulated nodes (kwok). Times are in seconds from the create call. Compare
the ratio of the two rows of a shape, which follow each other, not the figures.

A shape is [KIND:]FRAMEWORKSxTASKS[@SECONDS]: so many Frameworks of so many Tasks, which arrive within so many seconds.
KIND `steady` also deletes what has ended, `beside` submits a gang of two while the Pods of a large Framework are
created, `life` follows a Framework through retries and rescales to its deletion. `--scale 0.1` makes all shapes a tenth
of their size, at the same rate of arrivals.

    python tools/bench/controller.py [--shapes 1x100,200x10,...] [--scale 0.1] [--barrier] [--csv FILE]

The figures are also written to build/bench/controller.csv; `make scale` takes them over into docs/performance.csv and
docs/scale.md, which says what they mean.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from controller_bare import BareLoop
from controller_runs import ControllerRun, running_controller
from controller_scene import new_scene
from controller_shapes import SHAPES, Shape, parse

from frameworkrelease.performance import MEASURED, Row, of_page, row, write

if TYPE_CHECKING:
    from collections.abc import Mapping


async def run(shapes: list[Shape], file: Path, *, barrier: bool) -> list[Row]:
    """Measure each shape, with the bare loop and with the controller; write what there is after each."""
    rows: list[Row] = []
    for shape in shapes:
        async with new_scene(barrier=barrier) as scene:
            print(f"{shape.name} by the bare loop ...", flush=True)
            bare = await BareLoop(scene, shape).run()
            rows.append(row(shape.name, "bare loop", {**bare, **scene.origin}))
        async with new_scene(barrier=barrier) as scene, running_controller(scene.cluster) as controller:
            print(f"{shape.name} by the controller ...", flush=True)
            ours = await ControllerRun(scene, shape, controller).run()
            rows.append(row(shape.name, "controller", {**ours, **compared(ours, bare), **scene.origin}))
        write(rows, file)
    return rows


def compared(ours: Mapping[str, Any], bare: Mapping[str, float]) -> dict[str, float]:
    """Return the ratios to the bare loop, as columns."""
    pairs = {"of the loop": "all run s", "API server, of the loop": "kube-apiserver"}
    return {ratio: ours[name] / bare[name] for ratio, name in pairs.items() if bare.get(name)}


def main() -> int:
    """Measure and print tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", default=SHAPES, help="separated by commas (default: %(default)s)")
    parser.add_argument("--scale", type=float, default=1.0, help="the size of the shapes (default: %(default)s)")
    parser.add_argument("--barrier", action="store_true", help="give the Pods the label of the barrier")
    parser.add_argument("--csv", type=Path, default=MEASURED / "controller.csv", help="the file of the figures")
    arguments = parser.parse_args()
    try:
        shapes = [parse(text).scaled(arguments.scale) for text in arguments.shapes.split(",")]
    except ValueError as error:
        parser.error(str(error))
    rows = asyncio.run(run(shapes, arguments.csv, barrier=arguments.barrier))
    print(*of_page(rows), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
