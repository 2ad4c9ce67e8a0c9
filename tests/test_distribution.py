"""The three programs as one distribution."""

from __future__ import annotations

from importlib import resources

import pytest

PROGRAMS = ("frameworkbarrier", "frameworkcontroller", "frameworkinjector")


@pytest.mark.parametrize("program", [*PROGRAMS, "frameworkkube"])
def test_each_package_has_the_marker_of_a_typed_package(program: str) -> None:
    assert resources.files(program).joinpath("py.typed").is_file()
