"""What holds for every page of Markdown."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
LINK = re.compile(r"\]\((?P<path>[^)#\s]+)(#[^)\s]*)?\)")


def test_there_are_pages() -> None:
    assert "README.md" in PAGES


@pytest.mark.parametrize("page", PAGES)
def test_each_relative_link_leads_to_a_file(page: str) -> None:
    file = ROOT / page
    links = [link["path"] for link in LINK.finditer(file.read_text()) if "://" not in link["path"]]
    assert [link for link in links if not (file.parent / link).exists()] == []
