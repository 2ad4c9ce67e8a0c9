"""What the chart makes for cert-manager, as the API server validates it by the definitions of cert-manager.

cert-manager itself does not run here: whether it issues the certificate is not tested.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest

from localcluster.client import ApiStatusError
from localcluster.progress import Lines
from testkit import go_modules
from testkit.waiting import eventually
from tests.release.objects import only
from tests.support.refusals import refusal_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from localcluster import Cluster
    from localcluster.client import RawClient
    from tests.release.conftest import Render

pytestmark = [pytest.mark.chart, pytest.mark.apiserver, pytest.mark.turns("crds")]

GROUP = "/apis/cert-manager.io/v1"
PLURALS = {"Certificate": "certificates", "Issuer": "issuers"}
CASES = ("a certificate of cert-manager", "an issuer of cert-manager")


@pytest.fixture(scope="module")
def cert_manager(cluster: Cluster, raw: RawClient) -> Iterator[None]:
    """The definitions of cert-manager, served by the API server."""
    folder = go_modules.folder_of(go_modules.CERT_MANAGER, Lines()) / "deploy" / "crds"
    files = [f"--filename={folder}/cert-manager.io_{plural}.yaml" for plural in PLURALS.values()]
    cluster.kubectl("apply", "--server-side", *files)

    def is_served() -> None:
        try:
            served = {found["name"] for found in raw.get(GROUP)["resources"]}
        except ApiStatusError as error:
            raise AssertionError(str(error)) from error
        assert served >= set(PLURALS.values())

    eventually(is_served, timeout=30)
    yield
    cluster.kubectl("delete", *files)


def refusal(raw: RawClient, namespace: str, found: dict[str, Any]) -> str:
    """Why the API server refuses an object in a namespace, an unknown field included; "" if it does not."""
    body = found | {"metadata": found["metadata"] | {"namespace": namespace}}
    return refusal_of(raw, f"{GROUP}/namespaces/{namespace}/{PLURALS[found['kind']]}", body)


@pytest.mark.parametrize("case", CASES)
def test_cert_manager_knows_what_the_chart_asks_of_it(
    render: Render, raw: RawClient, namespace: str, cert_manager: None, case: str
) -> None:
    asked = [one for one in render(case) if one["kind"] in PLURALS]
    assert "Certificate" in {one["kind"] for one in asked}
    assert [refusal(raw, namespace, one) for one in asked] == [""] * len(asked)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        pytest.param("renewBefor", "1h", id="an unknown field"),
        pytest.param("privateKey", {"algorithm": "DSA"}, id="an unknown algorithm"),
        pytest.param("dnsNames", "one", id="a text for a list"),
    ],
)
def test_the_definitions_find_what_is_wrong(
    render: Render, raw: RawClient, namespace: str, cert_manager: None, field: str, value: object
) -> None:
    certificate = copy.deepcopy(only(render(CASES[0]), "Certificate"))
    certificate["spec"][field] = value
    assert field in refusal(raw, namespace, certificate)
