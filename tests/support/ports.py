"""What is said on ports of this machine."""

from __future__ import annotations

import urllib.error
import urllib.request


def fetch(port: int, path: str) -> tuple[int, str]:
    """Status and text of a plain HTTP answer. Raises URLError if there is none."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
