"""`python -m frameworkrelease.scale [FILE ...]`: keep what the benchmarks have measured, and write page and picture."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from frameworkrelease.scale import results
from frameworkrelease.scale.files import files

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0, or 2 for wrong usage."""
    parser = argparse.ArgumentParser(
        prog="frameworkrelease.scale", description="Keep what the benchmarks have measured, and write docs/scale.md."
    )
    parser.add_argument(
        "files", nargs="*", type=Path, metavar="FILE", help="of a benchmark (default: all of build/bench)"
    )
    parser.add_argument("--fresh", action="store_true", help="forget the figures that were kept before")
    arguments = parser.parse_args(argv)
    found = arguments.files or sorted(results.MEASURED.glob("*.json"))
    if not found:
        parser.error(f"{results.MEASURED} has no figures: run `make bench` or `make bench-start` first")
    kept = results.Results() if arguments.fresh else results.read()
    for file in found:
        if not file.exists():
            parser.error(f"{file}: there is no such file")
        kept = results.merged(kept, results.read(file))
    results.write(kept, results.FILE)
    for file, text in files().items():
        file.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
