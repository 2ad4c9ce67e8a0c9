"""Every example of training by the shared image ends as it should, on a real node, by the code of `make example`."""

import pytest

from localcluster import Cluster
from tests.e2e.examples import run as examples

pytestmark = pytest.mark.node


@pytest.mark.parametrize("name", examples.of_training())
def test_the_example_ends_as_expected(name: str, cluster: Cluster, installed: None) -> None:
    examples.ends_as_expected(name, cluster)
