"""What holds for every page of Markdown, and for the picture of the terminal."""

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import typer.core
import typer.main
import yaml

from frameworkclient.cli.app import app
from tests.support.pages import PAGES, TRACKED
from tests.support.rows import each

ROOT = Path(__file__).parents[1]
TERMINAL = ROOT / "docs" / "frameworkctl.svg"
LINK = re.compile(r"\]\((?P<path>[^)#\s]*)(#(?P<anchor>[^)\s]*))?\)")
HEADING = re.compile(r"^#{1,6} (?P<text>.+)$", re.MULTILINE)
IMAGE = re.compile(r"!\[(?P<text>[^]]*)\]\((?P<path>[^)]*)\)")
FENCED = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)


def anchors_of(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    found: dict[str, int] = {}
    for heading in HEADING.finditer(FENCED.sub("", page.read_text())):
        text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading["text"]).lower()
        anchor = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        found[anchor] = found.get(anchor, -1) + 1
    return {f"{anchor}-{number}" if number else anchor for anchor, last in found.items() for number in range(last + 1)}


@each("page", PAGES)
def test_each_relative_link_leads_to_a_file_and_to_a_heading_of_it(page: str) -> None:
    file, missing = ROOT / page, []
    for link in LINK.finditer(file.read_text()):
        if "://" not in link["path"]:
            target = file.parent / link["path"] if link["path"] else file
            is_page = link["anchor"] and target.suffix == ".md"
            if not target.exists() or (is_page and link["anchor"] not in anchors_of(target)):
                missing.append(link[0])
    assert missing == []


def test_the_picture_of_the_terminal_is_described_on_its_pages_is_small_and_loads_nothing() -> None:
    for page in (ROOT / "README.md", ROOT / "docs" / "cli.md"):
        texts = {page.parent / image["path"]: image["text"] for image in IMAGE.finditer(page.read_text())}
        assert texts[TERMINAL], page
    text = TERMINAL.read_text()
    assert len(text) < 300 * 1024
    assert ET.fromstring(text).tag == "{http://www.w3.org/2000/svg}svg"
    assert re.findall(r"""<script|@import|url\((?!#)|href=["'](?!#)""", text) == []


def test_the_pictures_of_the_page_are_described_and_small() -> None:
    texts = {image["path"]: image["text"] for image in IMAGE.finditer((ROOT / "docs" / "history.md").read_text())}
    pictures = [*ROOT.glob("docs/*.png")]
    assert len(pictures) == 2
    for picture in pictures:
        assert texts[picture.name], picture
        assert picture.stat().st_size < 200 * 1024, picture


# --- what pages name is there -----------------------------------------------------------------------------------------

FLAG = re.compile(r"(?<![\w-])(?:--[a-z][a-z-]*|-[a-z])(?![\w-])")
CODE = re.compile(r"^ *```.*?^ *```$|`[^`\n]+`", re.MULTILINE | re.DOTALL)
PLACES = {file.partition("/")[0] for file in TRACKED if "/" in file} - {"deploy"}
"""Folders of the repository; `deploy` is one of Spark's, too."""
CURRENT = [page for page in PAGES if page != "CHANGELOG.md" and not page.startswith("docs/decisions/")]
"""The pages that speak of what is, and not of what was."""
NO_VALUES = {"injector.sh", "controller.replica"} | {
    f"gangScheduling.{name}"
    for name in ("scheduler", "groupPer", "topologyKey", "priorityClassName", "disruptionMode", "queue")
}
"""A file, a mistake that a page shows on purpose, and fields of a Framework."""


def code_of(page: str) -> str:
    """What a page writes as code, each command on a line of its own."""
    return "\n".join(
        re.sub(r"\\\n *", "", code.group().strip("`")) for code in CODE.finditer((ROOT / page).read_text())
    )


@each("page", CURRENT)
def test_commands_of_a_page_are_there_with_their_flags(page: str) -> None:
    program = typer.main.get_command(app)
    assert isinstance(program, typer.core.TyperGroup)
    wrong = []
    for name, rest in re.findall(r"(?:frameworkctl|kubectl framework) ([a-z]+)([^|\n]*)", code_of(page)):
        known = {"--help", *(flag for one in program.commands[name].params for flag in one.opts + one.secondary_opts)}
        own = re.sub(r"--injector-arg[ =]\S+", "", rest.partition(" -- ")[0])
        wrong += [f"{name} {flag}" for flag in FLAG.findall(own) if flag not in known]
    assert wrong == []


@each("page", CURRENT)
def test_files_of_a_page_are_there(page: str) -> None:
    named = re.findall(r"`(\w+/[\w./*-]+)`", (ROOT / page).read_text())
    ours = [file for file in named if file.partition("/")[0] in PLACES]
    assert [file for file in ours if not [*ROOT.glob(file), *ROOT.glob(f"tests/{file}")]] == []


@each("page", CURRENT)
def test_values_of_the_chart_that_a_page_names_are_there(page: str) -> None:
    values, wrong = yaml.safe_load((ROOT / "charts" / "frameworkcontroller" / "values.yaml").read_text()), []
    named = r"^([a-z]\w*(?:\.[A-Za-z]+)+)(?=[=:]|$)|--set(?:-\w+)?[ =]\"?([a-z][\w.]*)="
    for path in ("".join(found) for found in re.findall(named, code_of(page), re.MULTILINE)):
        at: object = values if path.partition(".")[0] in values and path not in NO_VALUES else None
        for key in path.split("."):
            if isinstance(at, dict) and at:
                wrong += [path] * (key not in at)
                at = at.get(key)
    assert wrong == []


def test_each_test_that_the_table_of_bounds_names_is_there() -> None:
    table = (ROOT / "docs" / "performance.md").read_text().partition("\n## Bounds\n")[2]
    named = re.findall(r"`([\w/]*test_\w+\.py)`", table)
    found = {name: list((ROOT / "tests").glob(f"**/{name}")) for name in named}
    assert found
    assert {name for name, paths in found.items() if len(paths) != 1} == set()
