"""The end of a command in a container, as the API server tells it. `tests/e2e` runs real ones."""

from __future__ import annotations

import json

import pytest

from frameworkclient.errors import RefusedError
from frameworkclient.remote import exit_code


def failure(message: str, *causes: dict[str, str]) -> bytes:
    return json.dumps({"status": "Failure", "message": message, "details": {"causes": list(causes)}}).encode()


def test_the_exit_code_is_that_of_the_command() -> None:
    assert exit_code(b'{"status": "Success"}') == 0
    assert exit_code(failure("command terminated", {"reason": "ExitCode", "message": "7"})) == 7


@pytest.mark.parametrize("status", [failure("no such container"), b"", b"{}", b"not json"])
def test_a_command_that_was_not_started_is_an_error(status: bytes) -> None:
    with pytest.raises(RefusedError, match="the command was not started"):
        exit_code(status)
