"""`python -m demo [up|down]`: run the demo, or remove what it brought."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from demo import events, manifests
from demo.display import Board, choose
from demo.errors import DemoError
from demo.parts import step
from demo.run import NAMESPACE, Options, diagnosis, run
from demo.summary import as_json, summarize
from demo.target import CLUSTER, Existing, Local
from demo.words import clean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from demo.display import Display
    from demo.target import Target


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; 0 if the training succeeded, 1 if not, 2 for wrong usage, 130 if interrupted."""
    arguments = _parser().parse_args(argv)
    naming = manifests.Naming(arguments.image_prefix.rstrip("/"), arguments.image_tag)
    target: Target = (
        Existing(arguments.context, naming, arguments.kubeconfig) if arguments.context else Local(arguments.cluster)
    )
    options = Options(namespace=arguments.namespace, gang_seconds=arguments.timeout, framework=arguments.framework)
    display = choose(sys.stdout, os.environ)
    board = Board(display)
    again = f" CONTEXT={arguments.context}" if arguments.context else ""
    try:
        with display:
            if arguments.command == "down":
                return _down(display, board, target, options)
            return _up(display, board, target, options, arguments.json)
    except KeyboardInterrupt:
        board.close()
        print(f"\nLeft as it is: `make demo{again}` goes on from here, `make demo-down{again}` removes it.")
        return 130
    finally:
        board.close()


def _target(arguments: argparse.Namespace) -> Target:
    if not arguments.context:
        return Local(arguments.cluster)
    naming = manifests.Naming(arguments.image_prefix.rstrip("/"), arguments.image_tag)
    return Existing(arguments.context, naming, arguments.kubeconfig)


def _up(display: Display, board: Board, target: Target, options: Options, file: Path | None) -> int:
    failure: DemoError | None = None
    try:
        run(board, target, options)
    except DemoError as error:
        failure = error
    summary = summarize(board.demo, time.time())
    if file is not None:
        file.write_text(as_json(summary))
    if failure is not None:
        for title, lines in diagnosis(board.demo, target, options):
            display.report(title, [clean(line) for line in lines])
    display.summary(summary)
    if failure is not None:
        display.report("FAILED", [clean(line) for line in str(failure).splitlines()])
        return 1
    return 0


def _down(display: Display, board: Board, target: Target, options: Options) -> int:
    board.post(events.Planned(board.now(), ("remove",)))
    try:
        with step(board.post, "remove"):
            target.remove(options.namespace, board.post)
    except DemoError as error:
        display.report("FAILED", [clean(line) for line in str(error).splitlines()])
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="demo", description="Real TensorFlow training as a gang of Pods, from nothing to Succeeded."
    )
    parser.add_argument("command", nargs="?", choices=["up", "down"], default="up", help="default: %(default)s")
    parser.add_argument("--context", help="a kubeconfig context to use instead of a local cluster")
    parser.add_argument("--kubeconfig", help="the file with that context; default: $KUBECONFIG or the home folder's")
    parser.add_argument("--image-prefix", default=manifests.PREFIX, help="with --context; default: %(default)s")
    parser.add_argument("--image-tag", default=manifests.TAG, help="with --context; default: %(default)s")
    parser.add_argument("--cluster", default=CLUSTER, help="the local cluster's name; default: %(default)s")
    parser.add_argument(
        "--framework", type=Path, default=manifests.FRAMEWORK, metavar="FILE", help="default: the example's"
    )
    parser.add_argument("--namespace", default=NAMESPACE, help="of the Framework; default: %(default)s")
    parser.add_argument(
        "--timeout", type=float, default=300.0, metavar="SECONDS", help="from apply to Completed; default: %(default)s"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the summary there too")
    return parser


if __name__ == "__main__":
    sys.exit(main())
