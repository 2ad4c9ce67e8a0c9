"""The pages of the reference that Sphinx makes from the code: everything is on them, once."""

import inspect
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import typer.core
import typer.main
import yaml
from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace

import frameworkclient
from frameworkclient.cli.app import app
from frameworkclient.logs.selection import Wanted
from tests.support.rows import each

ROOT = Path(__file__).parents[2]
CRD = ROOT / "charts" / "frameworkcontroller" / "files" / "crd.yaml"
PAGES = ("fields", "commands", "sdk")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Sphinx:
    """The site, of these pages alone."""
    build = tmp_path_factory.mktemp("site")
    only = {"root_doc": f"docs/reference/{PAGES[0]}", "include_patterns": [f"docs/reference/{one}.md" for one in PAGES]}
    with docutils_namespace(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Sphinx uses what it deprecates
        sphinx = Sphinx(ROOT, ROOT / "docs", build, build / "doctrees", "dummy", only, status=None, warning=None)
        sphinx.build()
    return sphinx


def anchors(site: Sphinx, page: str) -> Counter[str]:
    """How often each thing is described on a page, by its anchors."""
    described = site.env.get_doctree(f"docs/reference/{page}").findall(addnodes.desc_signature)
    return Counter(anchor for one in described for anchor in one["ids"])


def leaves(path: str, schema: Mapping[str, Any]) -> Iterator[str]:
    """Yield the paths of the fields that have none within them."""
    inner = schema.get("items", schema).get("properties", {})
    for name, field in inner.items():
        yield from leaves(f"{path}[].{name}" if "items" in schema else f"{path}.{name}", field)
    if not inner:
        yield path


@each("part, known", [("spec", "spec.taskRoles[].taskNumber"), ("status", "status.hangs.last.culprits[].task")])
def test_each_field_of_the_definition_is_described_once(site: Sphinx, part: str, known: str) -> None:
    version = yaml.safe_load(CRD.read_text())["spec"]["versions"][0]
    expected = [*leaves(part, version["schema"]["openAPIV3Schema"]["properties"][part])]
    found = anchors(site, "fields")
    assert known in expected
    assert [path for path in expected if found[path] != 1] == []


def test_each_command_has_a_section_with_its_flags(site: Sphinx) -> None:
    program, page = typer.main.get_command(app), site.env.get_doctree("docs/reference/commands")
    assert isinstance(program, typer.core.TyperGroup)
    sections = {one[0].astext(): one.astext() for one in page.findall(nodes.section)}
    for name, command in program.commands.items():
        flags = [flag for one in command.params for flag in (*one.opts, *one.secondary_opts) if flag.startswith("--")]
        assert [flag for flag in flags if flag not in sections[f"frameworkctl {name}"]] == [], name


@each("name", [*(set(frameworkclient.__all__) - {"__version__"}), "logs.selection.Wanted"])
def test_each_name_of_the_sdk_is_described_with_its_members(site: Sphinx, name: str) -> None:
    thing: Any = Wanted if name.endswith("Wanted") else getattr(frameworkclient, name)
    members: set[str] = set()
    if inspect.isclass(thing) and name != "AsyncClient":  # it has the members of `Client`
        members = {*vars(thing), *inspect.get_annotations(thing)}
    expected = [f"frameworkclient.{name}", *(f"frameworkclient.{name}.{key}" for key in members if key[0] != "_")]
    found = anchors(site, "sdk")
    assert [path for path in expected if found[path] != 1] == []


def test_no_docstring_of_an_attribute_is_taken_for_its_type(site: Sphinx) -> None:
    """Of text before a colon in the first line of a property Google style makes a type."""
    page = site.env.get_doctree("docs/reference/sdk")
    assert [one.parent.astext() for one in page.findall(nodes.field_name) if one.astext() == "Type"] == []
