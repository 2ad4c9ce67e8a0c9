"""Every example of training by the shared image ends as it should, on a real node, by the code of `make example`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.examples import run as examples

if TYPE_CHECKING:
    from localcluster import Cluster

pytestmark = pytest.mark.node


@pytest.mark.parametrize("name", examples.of_training())
def test_the_example_ends_as_expected(name: str, cluster: Cluster, installed: None) -> None:
    examples.ends_as_expected(name, cluster)
