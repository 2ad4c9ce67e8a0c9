"""The demo as a person runs it, for the suites about it."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import localcluster
from tests.support.clusters import own_name, require_node

REPOSITORY = Path(__file__).parents[3]


@contextlib.contextmanager
def demo_cluster(ending: str) -> Iterator[str]:
    """The name of a local cluster of the demo's; without root the tests are skipped, or fail where it is required."""
    require_node()
    name = own_name(ending)
    try:
        yield name
    finally:
        localcluster.down(name)


def command(name: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "frameworkdemo", *arguments, "--cluster", name]


def finished(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        command(name, *arguments), cwd=REPOSITORY, capture_output=True, text=True, timeout=1500, check=False
    )
    print(done.stdout, done.stderr)
    return done
