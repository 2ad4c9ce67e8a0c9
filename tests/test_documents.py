"""What holds for every page of Markdown, and for the picture of the terminal."""

from __future__ import annotations

import re
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

from tests.support.rows import each

ROOT = Path(__file__).parents[1]
PAGES = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
TERMINAL = ROOT / "docs" / "frameworkctl.svg"
LINK = re.compile(r"\]\((?P<path>[^)#\s]*)(#(?P<anchor>[^)\s]*))?\)")
HEADING = re.compile(r"^#{1,6} (?P<text>.+)$", re.MULTILINE)
IMAGE = re.compile(r"!\[(?P<text>[^]]*)\]\((?P<path>[^)]*)\)")
FENCED = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)


def test_there_are_pages() -> None:
    assert "README.md" in PAGES


@each("page", PAGES)
def test_each_relative_link_leads_to_a_file(page: str) -> None:
    file = ROOT / page
    links = [link["path"] for link in LINK.finditer(file.read_text()) if link["path"] and "://" not in link["path"]]
    assert [link for link in links if not (file.parent / link).exists()] == []


def anchors_of(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    found: dict[str, int] = {}
    for heading in HEADING.finditer(FENCED.sub("", page.read_text())):
        text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading["text"]).lower()
        anchor = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        found[anchor] = found.get(anchor, -1) + 1
    return {f"{anchor}-{number}" if number else anchor for anchor, last in found.items() for number in range(last + 1)}


@each("page", PAGES)
def test_each_link_to_a_heading_leads_to_one(page: str) -> None:
    file = ROOT / page
    links = [link for link in LINK.finditer(file.read_text()) if link["anchor"] and "://" not in link["path"]]
    targets = [(file.parent / link["path"] if link["path"] else file, link["anchor"]) for link in links]
    missing = [
        f"{target.name}#{anchor}"
        for target, anchor in targets
        if target.suffix == ".md" and anchor not in anchors_of(target)
    ]
    assert missing == []


@each("page", ["README.md", "docs/cli.md"])
def test_a_page_shows_the_terminal_and_says_what_is_to_be_seen(page: str) -> None:
    texts = {(ROOT / page).parent / image["path"]: image["text"] for image in IMAGE.finditer((ROOT / page).read_text())}
    assert texts[TERMINAL]


def test_the_picture_of_the_terminal_is_small_and_loads_nothing() -> None:
    text = TERMINAL.read_text()
    assert len(text) < 300 * 1024
    assert ET.fromstring(text).tag == "{http://www.w3.org/2000/svg}svg"
    assert re.findall(r"""<script|@import|url\((?!#)|href=["'](?!#)""", text) == []
