"""How fast the controller starts and ends Frameworks, compared with a bare concurrent loop that does the same to Pods.

Each row is made on a new local cluster with simulated nodes (kwok). Times are in seconds from the create call. Compare
the ratio of the two rows of a shape, which follow each other, not the figures.

A shape is [KIND:]FRAMEWORKSxTASKS[@SECONDS]: so many Frameworks of so many Tasks, which arrive within so many seconds.
KIND `groups` lets kube-scheduler place each as a whole, `steady` also deletes what has ended, `beside` submits a gang
of two while the Pods of a large Framework are created, `life` follows a Framework through retries and rescales to its
deletion. `--scale 0.1` makes all shapes a tenth of their size, at the same rate of arrivals.
"""

import asyncio

from bench.controller.bare import BareLoop
from bench.controller.runs import Columns, ControllerRun
from bench.controller.scene import new_scene
from bench.controller.shapes import SHAPES, Kind, Shape, parse
from bench.results import Results, flags
from bench.scene import controller
from testkit.kueue import grant


async def run(shapes: list[Shape], results: Results) -> None:
    """Measure each shape, with the bare loop and with the controller."""
    for shape in shapes:
        print(f"{shape.name} ...", flush=True)
        async with new_scene() as scene:
            bare = await BareLoop(scene, shape).run()
            results.add(shape.name, "bare loop", bare, scene.cluster.version)
        async with new_scene() as scene:
            schedulers = ["kubernetes"] if shape.kind is Kind.GROUPS else []
            if schedulers:
                grant(scene.cluster, f"gangScheduling.schedulers={{{','.join(schedulers)}}}")
            with controller(scene.cluster, settings={"gangScheduling": {"schedulers": schedulers}}) as process:
                ours = await ControllerRun(scene, shape, process).run()
            results.add(shape.name, "controller", {**ours, **compared(ours, bare)}, scene.cluster.version)


def compared(ours: Columns, bare: Columns) -> dict[str, float]:
    """Return the ratios to the bare loop, as columns."""
    pairs = {"of the loop": "all run s", "API server, of the loop": "kube-apiserver"}
    return {ratio: ours[name] / bare[name] for ratio, name in pairs.items() if bare.get(name)}


def main() -> None:
    """Measure and print tables."""
    parser = flags(__doc__)
    parser.add_argument("--shapes", default=SHAPES, help="separated by commas (default: %(default)s)")
    parser.add_argument("--scale", type=float, default=1.0, help="the size of the shapes (default: %(default)s)")
    arguments = parser.parse_args()
    try:
        shapes = [parse(text).scaled(arguments.scale) for text in arguments.shapes.split(",")]
    except ValueError as error:
        parser.error(str(error))
    results = Results("controller")
    asyncio.run(run(shapes, results))
    results.show()


if __name__ == "__main__":
    main()
