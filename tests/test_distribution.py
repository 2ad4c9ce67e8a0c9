"""The programs and the client as one distribution."""

from __future__ import annotations

from importlib import resources

import pytest

PROGRAMS = ("frameworkbarrier", "frameworkclient", "frameworkcontroller", "frameworkinjector")


@pytest.mark.parametrize("program", [*PROGRAMS, "frameworkkube"])
def test_each_package_has_the_marker_of_a_typed_package(program: str) -> None:
    assert resources.files(program).joinpath("py.typed").is_file()
