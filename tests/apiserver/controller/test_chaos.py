"""Whatever goes wrong at random, every healthy Framework ends as it should (see `tests/chaos`).

`make chaos SEED=123 CHAOS_SECONDS=600` repeats a run.
"""

import os
import secrets
from pathlib import Path

import pytest

from localcluster import Cluster
from testkit.frameworks import Frameworks
from tests.chaos.run import Run
from tests.support.beside.kubelet import Kubelet

pytestmark = [pytest.mark.apiserver, pytest.mark.turns("crds")]

SHORT_SECONDS = 35.0
LONG_SECONDS = float(os.environ.get("CHAOS_SECONDS") or 1800)
SEED = int(os.environ.get("SEED") or secrets.randbelow(1_000_000))
# The short form guards what is known; what is not known yet is the long one's to find.
SHORT_SEED = 6


def test_every_healthy_framework_ends_as_it_should_whatever_goes_wrong(
    cluster: Cluster, frameworks: Frameworks, kubelet: Kubelet, tmp_path: Path
) -> None:
    Run(cluster, frameworks, kubelet, tmp_path, SHORT_SEED).play(SHORT_SECONDS)


@pytest.mark.long
def test_every_healthy_framework_ends_as_it_should_after_half_an_hour_of_it(
    cluster: Cluster, frameworks: Frameworks, kubelet: Kubelet, tmp_path: Path
) -> None:
    Run(cluster, frameworks, kubelet, tmp_path, SEED).play(LONG_SECONDS)
