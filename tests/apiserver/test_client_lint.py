"""`lint` and the API server agree about what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from frameworkclient.checks.schema import problems
from frameworkcontroller.api import definition
from localcluster.client import ApiStatusError
from tests.client.broken import REFUSED, TAKEN

if TYPE_CHECKING:
    from localcluster.client import RawClient

pytestmark = [pytest.mark.apiserver, pytest.mark.long]
SCHEMA = definition.schema()


def refusal(raw: RawClient, namespace: str, manifest: dict[str, Any]) -> str:
    """What the API server says, "" if it takes the Framework."""
    path = f"/apis/frameworkcontroller.microsoft.com/v1/namespaces/{namespace}/frameworks"
    try:
        raw.create(f"{path}?dryRun=All&fieldValidation=Strict", manifest)
    except ApiStatusError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("manifest", [manifest for manifest, _ in REFUSED.values()], ids=REFUSED)
def test_the_api_server_refuses_what_lint_calls_an_error(
    raw: RawClient, namespace: str, manifest: dict[str, Any]
) -> None:
    assert refusal(raw, namespace, manifest)


@pytest.mark.parametrize("manifest", TAKEN.values(), ids=TAKEN)
def test_the_api_server_takes_what_lint_does(raw: RawClient, namespace: str, manifest: dict[str, Any]) -> None:
    assert refusal(raw, namespace, manifest) == ""
    assert list(problems(manifest, SCHEMA)) == []
