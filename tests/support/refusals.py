"""Refusals by the API server that a test waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from localcluster.client import ApiStatusError

if TYPE_CHECKING:
    from localcluster.client import Json, RawClient


def refusal_of(raw: RawClient, path: str, body: Json) -> str:
    """Return why the API server would refuse to create an object, an unknown field included; "" if it would not.

    `pytest.raises` cannot stand in a check of `eventually`: it fails by an exception that ends the wait.

    Args:
        raw: The client.
        path: The collection.
        body: The object.
    """
    try:
        raw.create(f"{path}?dryRun=All&fieldValidation=Strict", body)
    except ApiStatusError as error:
        return str(error)
    return ""
