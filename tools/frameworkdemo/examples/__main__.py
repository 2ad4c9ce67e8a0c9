"""`python -m frameworkdemo.examples [NAME ...]`: run examples on a local node, and print how each of them went."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import localcluster
from frameworkdemo import manifests
from frameworkdemo.errors import FAILURES
from frameworkdemo.examples import catalogue
from frameworkdemo.examples.run import AS_EXPECTED, as_table, run
from frameworkdemo.run import install
from frameworkdemo.steps import PRINT, Steps
from frameworkdemo.target import CLUSTER, LocalTarget


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    It is 0 if all examples ended as expected, 1 if one did not, 2 for wrong usage, 130 if interrupted.
    """
    arguments = _parser().parse_args(argv)
    try:
        folders = [catalogue.folder_of(name) for name in arguments.names or catalogue.names()]
        if arguments.fresh:
            localcluster.down(arguments.cluster)
        try:
            return _run(arguments.cluster, folders)
        finally:
            if arguments.fresh:
                localcluster.down(arguments.cluster)
    except FAILURES as error:
        print(f"FAILED: {error}")
        return 1
    except KeyboardInterrupt:
        print("\nInterrupted; what the example had created is removed.")
        return 130


def _run(name: str, folders: Sequence[Path]) -> int:
    target = LocalTarget(name, (*manifests.PROGRAM_IMAGES, *catalogue.images_of(folders)))
    cluster = install(Steps(), target)
    outcomes = []
    for folder in folders:
        print(f"\n=== {folder.name}", flush=True)
        outcomes.append(run(cluster, folder, PRINT))
    print("", *as_table(outcomes), sep="\n")
    return 0 if all(each.result == AS_EXPECTED for each in outcomes) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="frameworkdemo.examples", description="Run examples on a real Kubernetes node on this machine."
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="a folder of examples/; default: all")
    parser.add_argument("--cluster", default=CLUSTER, help="the name of the local cluster; default: %(default)s")
    parser.add_argument("--fresh", action="store_true", help="start with a new node, and remove it at the end")
    return parser


if __name__ == "__main__":
    sys.exit(main())
