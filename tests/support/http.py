"""Plain HTTP to a port of this machine, for tests of health and metrics endpoints in `tests/apiserver`."""

from __future__ import annotations

import urllib.error
import urllib.request

from localcluster.waiting import patience


def fetch(port: int, path: str) -> tuple[int, str]:
    """Return the status and the text of an answer.

    Raises:
        URLError: There is no answer.
    """
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=patience(10)) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
