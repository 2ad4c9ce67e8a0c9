"""`lint` and the API server agree about what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from frameworkclient.checks.schema import problems
from frameworkcontroller.api import definition
from tests.client.broken import REFUSED, TAKEN
from tests.support.refusals import refusal_of
from tests.support.rows import each

if TYPE_CHECKING:
    from localcluster.client import RawClient

pytestmark = [pytest.mark.apiserver, pytest.mark.long]
SCHEMA = definition.schema()


@pytest.fixture
def path(namespace: str) -> str:
    return f"/apis/frameworkcontroller.microsoft.com/v1/namespaces/{namespace}/frameworks"


@each("manifest", [manifest for manifest, _ in REFUSED.values()], REFUSED)
def test_the_api_server_refuses_what_lint_calls_an_error(raw: RawClient, path: str, manifest: dict[str, Any]) -> None:
    assert refusal_of(raw, path, manifest)


@each("manifest", TAKEN.values(), TAKEN)
def test_the_api_server_takes_what_lint_does(raw: RawClient, path: str, manifest: dict[str, Any]) -> None:
    assert refusal_of(raw, path, manifest) == ""
    assert list(problems(manifest, SCHEMA)) == []
