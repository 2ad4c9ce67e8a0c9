"""`python -m frameworkdemo [up|down]`: run the demo, or remove everything that it created."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from frameworkclient.text import sanitize
from frameworkdemo import manifests
from frameworkdemo.errors import DemoError
from frameworkdemo.picture import events
from frameworkdemo.picture.display import choose_display
from frameworkdemo.picture.store import RunStore
from frameworkdemo.picture.summary import as_json, summarize
from frameworkdemo.progress import step
from frameworkdemo.run import NAMESPACE, Options, diagnosis, run
from frameworkdemo.target import CLUSTER, ContextTarget, LocalTarget

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frameworkdemo.picture.display import Display
    from frameworkdemo.target import Target


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
    options = Options(namespace=arguments.namespace, gang_seconds=arguments.timeout, framework=arguments.framework)
    display = choose_display(sys.stdout, os.environ)
    store = RunStore(display)
    context = f" CONTEXT={arguments.context}" if arguments.context else ""
    try:
        with display:
            if arguments.command == "down":
                return _down(display, store, target, options)
            return _up(display, store, target, options, arguments.json)
    except KeyboardInterrupt:
        store.close()
        print(f"\nInterrupted: `make demo{context}` goes on from here, `make demo-down{context}` removes it.")
        return 130
    finally:
        store.close()


def _up(display: Display, store: RunStore, target: Target, options: Options, file: Path | None) -> int:
    failure: DemoError | None = None
    try:
        run(store, target, options)
    except DemoError as error:
        failure = error
    summary = summarize(store.state, time.time())
    if file is not None:
        file.write_text(as_json(summary))
    if failure is not None:
        for title, lines in diagnosis(store.state, target, options):
            display.report(title, [sanitize(line) for line in lines])
    display.summary(summary)
    if failure is not None:
        display.report("FAILED", [sanitize(line) for line in str(failure).splitlines()])
        return 1
    return 0


def _down(display: Display, store: RunStore, target: Target, options: Options) -> int:
    store.post(events.RunPlanned(store.now(), ("remove",)))
    try:
        with step(store.post, "remove"):
            target.remove(options.namespace, store.post)
    except DemoError as error:
        display.report("FAILED", [sanitize(line) for line in str(error).splitlines()])
        return 1
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
    add("--namespace", default=NAMESPACE, help="the namespace of the Framework; default: %(default)s")
    add(
        "--timeout",
        type=float,
        default=300.0,
        metavar="SECONDS",
        help="the limit from apply to Completed; default: %(default)s",
    )
    add("--json", type=Path, metavar="FILE", help="also write the summary to this file")
    return parser


if __name__ == "__main__":
    sys.exit(main())
