"""The three programs as one distribution."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata, resources

import pytest

PROGRAMS = ("frameworkbarrier", "frameworkcontroller", "frameworkinjector")


@pytest.mark.parametrize("program", PROGRAMS)
def test_each_program_reports_the_version_of_the_distribution(program: str) -> None:
    done = subprocess.run([sys.executable, "-m", program, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == metadata.version("frameworkcontroller") + "\n"


@pytest.mark.parametrize("program", PROGRAMS)
def test_each_package_has_the_marker_of_a_typed_package(program: str) -> None:
    assert resources.files(program).joinpath("py.typed").is_file()
