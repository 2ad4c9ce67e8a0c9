"""Fixtures of the tests of the chart."""

import functools
import json

import pytest
import yaml

from frameworkrelease import chart
from localcluster.programs.catalogue import pinned_version
from tests.release.manifests import MATRIX, Manifests, Render, Values


@pytest.fixture(scope="session")
def render(tmp_path_factory: pytest.TempPathFactory) -> Render:
    """Returns the manifests of some values, `render({...}, release="x", namespace="y")`; a case may be named.

    They are for the newest version of Kubernetes, unless `kubernetes` is another one.
    """
    folder = tmp_path_factory.mktemp("values")

    @functools.cache
    def of(text: str, release: str, namespace: str, kubernetes: str) -> str:
        file = folder / "values.json"
        file.write_text(text)
        return chart.rendered(f"--values={file}", f"--kube-version={kubernetes}", release=release, namespace=namespace)

    def rendered(
        values: Values | str = "defaults",
        *,
        release: str = chart.RELEASE,
        namespace: str = chart.NAMESPACE,
        kubernetes: str = pinned_version("kubernetes"),
    ) -> Manifests:
        chosen = MATRIX[values] if isinstance(values, str) else values
        text = of(json.dumps(chosen), release, namespace, kubernetes)
        return [document for document in yaml.safe_load_all(text) if document]

    return rendered
