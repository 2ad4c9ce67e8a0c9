"""`python -m frameworkrelease.matrix [VERSION ...]`: run the tests on versions of Kubernetes, and write the page."""

from __future__ import annotations

import argparse
import shlex
import sys
from typing import TYPE_CHECKING

from frameworkrelease.matrix import page, results
from frameworkrelease.matrix.results import Suite
from frameworkrelease.matrix.run import MatrixError, run
from localcluster.errors import LocalClusterError
from localcluster.programs import BUILDABLE, parse_version

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    It is 0 if every test passed or is not applicable, 1 if one failed or a version could not be run, 2 for wrong usage,
    130 if interrupted. What has been run by then is written.
    """
    arguments = _parser().parse_args(argv)
    clean = True
    try:
        for version, suite in results.planned(map(parse_version, arguments.versions or BUILDABLE)):
            if arguments.files and suite is not Suite.API_SERVER:
                continue
            print(f"\n=== Kubernetes {version}, {suite}", flush=True)
            found = run(suite, version, arguments.files, shlex.split(arguments.pytest))
            clean = clean and found.is_clean
            results.write(results.replaced(results.read(), found))
            page.FILE.write_text(page.page(page.FILE.read_text(), results.read()))
    except (LocalClusterError, MatrixError) as error:
        print(f"FAILED: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nInterrupted; the versions before this one are written.", file=sys.stderr)
        return 130
    print("", *page.tables(results.read()), sep="\n")
    return 0 if clean else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="frameworkrelease.matrix", description="Run the tests on versions of Kubernetes, and write the page."
    )
    parser.add_argument("versions", nargs="*", metavar="VERSION", help=f"default: {' '.join(BUILDABLE)}")
    parser.add_argument(
        "--files", nargs="+", default=[], metavar="PATH", help="of the API server suite, run only these files"
    )
    parser.add_argument("--pytest", default="", metavar="ARGUMENTS", help="more arguments of pytest, such as '-n 4'")
    return parser


if __name__ == "__main__":
    sys.exit(main())
