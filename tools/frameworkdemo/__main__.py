"""`python -m frameworkdemo [up|down]`: run the demo, or remove everything that it created."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from frameworkdemo import manifests
from frameworkdemo.errors import FAILURES
from frameworkdemo.run import run
from frameworkdemo.steps import Steps
from frameworkdemo.target import CLUSTER, ContextTarget, LocalTarget, Target


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    It is 0 if the training succeeded, 1 if it did not, 2 for wrong usage, 130 if interrupted.
    """
    arguments = _parser().parse_args(argv)
    target: Target = LocalTarget(arguments.cluster)
    if arguments.context:
        target = ContextTarget(
            arguments.context, arguments.image_prefix.rstrip("/"), arguments.image_tag, arguments.kubeconfig
        )
    context = f" CONTEXT={arguments.context}" if arguments.context else ""
    steps = Steps()
    try:
        if arguments.command == "down":
            with steps.step("remove"):
                target.remove(arguments.namespace)
        else:
            try:
                run(steps, target, arguments.namespace, arguments.framework, arguments.timeout)
            finally:
                for line in steps.summary():
                    steps.write(line)
    except FAILURES as error:
        steps.report("FAILED", str(error).splitlines())
        return 1
    except KeyboardInterrupt:
        print(f"\nInterrupted: `make demo{context}` goes on from here, `make demo-down{context}` removes it.")
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="frameworkdemo", description="Train with TensorFlow on a gang of Pods, from nothing to Succeeded."
    )
    add = parser.add_argument
    add("command", nargs="?", choices=["up", "down"], default="up", help="default: %(default)s")
    add("--context", help="a kubeconfig context to use instead of a local cluster")
    add("--kubeconfig", help="the file with that context; default: $KUBECONFIG or the file in the home folder")
    add("--image-prefix", default=manifests.PREFIX, help="of the images, with --context; default: %(default)s")
    add("--image-tag", default=manifests.TAG, help="of the images, with --context; default: %(default)s")
    add("--cluster", default=CLUSTER, help="the name of the local cluster; default: %(default)s")
    add(
        "--framework",
        type=Path,
        default=manifests.FRAMEWORK,
        metavar="FILE",
        help="the manifest of the Framework; default: the example's",
    )
    add("--namespace", default="demo", help="the namespace of the Framework; default: %(default)s")
    add(
        "--timeout",
        type=float,
        default=300.0,
        metavar="SECONDS",
        help="the limit from the submission to Completed; default: %(default)s",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
