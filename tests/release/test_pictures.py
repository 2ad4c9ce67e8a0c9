"""The pictures of the manual show what the code has, are readable in both themes, and load nothing."""

import itertools
import re
import xml.etree.ElementTree as ET

import pytest

from frameworkcontroller.api.states import NEXT, LedgerState, State
from frameworkrelease.chart import REPOSITORY
from frameworkrelease.generate.pictures import FOLDER, PICTURES

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_has_a_title_loads_nothing_and_is_small(name: str) -> None:
    text = (FOLDER / name).read_text()
    root = ET.fromstring(text)
    assert (root.attrib["role"], bool(root.findtext(f"{SVG}title"))) == ("img", True)
    assert len(text) < 40 * 1024
    assert re.findall(r"<script|@import|url\(|href=|<image|<foreignObject|\son\w+=", text) == []


def test_each_picture_is_on_a_page_with_a_sentence_about_it_and_no_other_file_is_there() -> None:
    pages = [*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").glob("**/*.md")]
    images = [found for page in pages for found in re.findall(r"!\[(.*?)\]\(\S*pictures/(\S+)\)", page.read_text())]
    assert {name for _, name in images} == {*PICTURES} == {file.name for file in FOLDER.iterdir()}
    assert [text for text, _ in images if not re.match(r"\w.{40,}\.$", text)] == []


@pytest.mark.parametrize("name", ["framework-states.svg", "task-states.svg"])
def test_the_states_and_every_change_between_them_are_drawn_and_no_other(name: str) -> None:
    root = ET.fromstring((FOLDER / name).read_text())
    drawn = [path.attrib["id"] for path in root.iter(f"{SVG}path") if "id" in path.attrib]
    assert sorted(drawn) == sorted(f"{state}-{to}" for state in State for to in NEXT[state])
    assert {*State} <= {text.text for text in root.iter(f"{SVG}text")}


def test_the_ledger_shows_every_state_of_a_life_without_dependencies() -> None:
    shown = {text.text for text in ET.fromstring((FOLDER / "ledger.svg").read_text()).iter(f"{SVG}text")}
    assert {*LedgerState} - shown == {LedgerState.WAITING}


def luminance(colour: str) -> float:
    """As WCAG defines it."""
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("name", PICTURES)
def test_text_is_readable_on_every_area_in_both_themes(name: str) -> None:
    for rules in (FOLDER / name).read_text().split("@media"):
        inks = re.findall(r"(?:text|\.q){fill:(#\w+)}", rules)
        areas = re.findall(r"\.(?:page|f-\w+){fill:(#\w+);", rules)
        pairs = (sorted(map(luminance, pair)) for pair in itertools.product(inks, areas))
        assert min((light + 0.05) / (dark + 0.05) for dark, light in pairs) >= 4.5
