"""Each block of each page: YAML fits what it is for, and commands are ones that their programs take.

YAML without a kind is a part, which has to fit one of `PARTS`; the value `...` stands for what a page leaves out.
"""

import ast
import importlib
import json
import re
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import kubernetes.client
import pytest
import typer.main
import yaml

from frameworkbarrier.presets import model as presets
from frameworkclient.checks import schema
from frameworkclient.checks.lint import lint
from frameworkclient.checks.template import unknown_fields
from frameworkclient.cli.app import app
from frameworkcontroller.api import definition, names
from frameworkinjector import flags
from frameworkinjector.names import PREFIX
from frameworkinjector.offline.render import rendered
from frameworkinjector.review.reasons import Reason
from frameworkinjector.review.settings import parse
from frameworkrelease import chart
from tests.support.pages import PAGES, PROGRAMS, TRACKED, Block, blocks, commands_of, shell_of, words_of
from tests.support.rows import each

ROOT = chart.REPOSITORY
BLOCKS = {f"{page}, block {number}": block for page in PAGES for number, block in enumerate(blocks(page), 1)}


def of_kinds(*kinds: str) -> dict[str, Block]:
    return {name: block for name, block in BLOCKS.items() if block.kind in kinds}


def test_each_block_is_of_a_kind_that_is_checked() -> None:
    # `promql` is checked in tests/monitoring, and what braces name is for Sphinx.
    known = {"", "text", "sh", "console", "yaml", "json", "toml", "python", "promql"}
    assert {name for name, block in BLOCKS.items() if block.kind not in known and block.kind[:1] != "{"} == set()


# --- YAML -------------------------------------------------------------------------------------------------------------

KEYS = {value for value in vars(names).values() if isinstance(value, str) and value.startswith(f"{names.GROUP}/")}
VALUES = yaml.safe_load((chart.CHART / "values.yaml").read_text())
OTHERS = {"integrations": "the configuration of Kueue"}
"""Parts of what is not ours, by their first key."""


def of_framework(part: Any) -> list[str]:
    """Return what the definition says of a part of a Framework, of which only required fields may be missing."""
    found = schema.problems({"metadata": {"name": "x"}} | part, definition.schema())
    return [str(problem) for problem in found if problem.text != "is missing"]


def of_kubernetes(kind: str, part: Any) -> list[str]:
    return [str(problem) for problem in unknown_fields(part, kind, "")]


PARTS: list[Callable[[Any], list[str]]] = [
    of_framework,
    lambda part: of_framework({"spec": part}),
    lambda part: of_framework({"spec": {"taskRoles": [part]}}),
    *(partial(of_kubernetes, f"V1{kind}") for kind in ("Pod", "PodSpec", "Container", "ObjectMeta", "ConfigMap")),
    # What is left of values is for helm, in tests/release/test_chart.py.
    *(lambda part, of=of: [f"{key} is not known" for key in part if key not in of] for of in (VALUES, OTHERS)),
    lambda part: [f"{key} is no annotation" for key in part if names.GROUP not in key],
]


def without_gaps(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_gaps(one) for key, one in value.items() if one != "..."}
    return [without_gaps(one) for one in value if one != "..."] if isinstance(value, list) else value


def everywhere(value: Any) -> Iterator[str]:
    """Yield what is wrong with our labels and annotations, and with Pods, wherever they are in a value."""
    if isinstance(value, dict):
        ours = {key: text for key, text in value.items() if f"{names.GROUP}/" in str(key)}
        yield from (f"{key} is not known" for key in ours if not key.startswith(PREFIX) and key not in KEYS)
        yield from (f"{key} must be a string" for key, text in ours.items() if not isinstance(text, str))
        parse({key: str(text) for key, text in ours.items()})
        if isinstance(value.get("spec"), dict) and "containers" in value["spec"]:
            yield from of_kubernetes("V1PodSpec", value["spec"])
    for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from everywhere(one)


def problems_of(document: Any) -> Iterator[str]:
    """Yield what is wrong with an object, or with a part of one."""
    yield from everywhere(document)
    if not isinstance(document, dict):
        yield "not an object: show the field that it is the value of"
    elif "kind" not in document:
        found = [fits(document) for fits in PARTS]
        yield from (problem for one in found if len(one) == min(map(len, found)) for problem in one)
    else:
        kind, version = document["kind"], document.get("apiVersion", "")
        if not version or (kind != "Policy" and not document.get("metadata", {}).get("name")):
            yield "apiVersion or metadata.name is missing"
        if kind == names.KIND:
            yield from map(str, [*lint(document), *schema.problems(document, definition.schema())])
        elif version.endswith("v1") and hasattr(kubernetes.client, f"V1{kind}"):
            yield from of_kubernetes(f"V1{kind}", document)
        _, pods = rendered(document, *flags.offline(["--foreign-gangs"]))
        asked = json.dumps(document).count(f'"{names.BARRIER_LABEL}": "enabled"')
        if asked != sum(pod.verdict.reason is Reason.INJECTED for pod in pods):
            yield "a Pod template with the label of the barrier does not get it"


# A template of the operator in `wrapper` is not applied as it is.
FILES = [file for file in TRACKED if re.fullmatch(r"examples/(?!wrapper/)[\w-]+/(?!kustomization)[\w-]+\.yaml", file)]
WRITTEN = {name: block.text for name, block in of_kinds("yaml").items()}
WRITTEN |= {file: (ROOT / file).read_text() for file in FILES}


@each("text", WRITTEN.values(), ids=WRITTEN)
def test_yaml_fits_what_it_is_for(text: str) -> None:
    documents = [without_gaps(one) for one in yaml.safe_load_all(text) if one is not None]
    assert [problem for one in documents for problem in problems_of(one)] == []


@each("block", of_kinds("json", "toml", "python").values(), ids=of_kinds("json", "toml", "python"))
def test_programs_and_data_can_be_read(block: Block) -> None:
    if block.kind == "json":
        json.loads(block.text)
    elif block.kind == "toml":
        presets.decode("own", tomllib.loads(block.text))
    else:
        compile(block.text, block.page, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        for module, imported in re.findall(r"^from (framework[\w.]*) import ([\w, ]+)$", block.text, re.MULTILINE):
            assert [one for one in imported.split(", ") if not hasattr(importlib.import_module(module), one)] == []


# --- commands ---------------------------------------------------------------------------------------------------------

SHELL = {name: shell for name, block in BLOCKS.items() if (shell := shell_of(block))}
FRAMEWORKCTL = typer.main.get_command(app)
MAKEFILE = (ROOT / "Makefile").read_text()
KINDS = {re.sub("^[A-Z]*[a-z]*V[0-9][a-z0-9]*", "", name).lower() for name in dir(kubernetes.client)}
KINDS |= {"crd", "framework", "fw", "podgroup", "workload"}
"""What kubectl can name, singular."""
TYPED = {
    "README.md": "tests/e2e/test_chart.py",
    "docs/cli.md": "tests/e2e/client/test_docs.py",
    "docs/migrate/frameworkcontroller.md": "tests/apiserver/operate/test_migration_states.py",
    "docs/quickstart.md": "tests/e2e/client/test_quickstart.py",
    "docs/operate": "tests/release/test_operations.py",
    "docs/user-guide.md": "tests/e2e/client/test_user_guide.py",
}
"""The pages, or folders of them, whose blocks `sh` and `console` a test types in a cluster, and that test."""


def test_a_test_types_the_commands_that_a_page_says_are_typed() -> None:
    pages = {block.page for block in of_kinds("sh", "console").values()}
    assert {page if page in TYPED else str(Path(page).parent) for page in pages} == set(TYPED)
    for page, test in TYPED.items():
        text = (ROOT / test).read_text()
        assert Path(page).name in text, page
        for place in re.findall(r'commands_of\("(.+?)", "(.+?)"\)', text):
            assert commands_of(*place), place


def read(program: Any, words: list[str]) -> None:
    """Let a program of Typer or argparse read its arguments; it raises what it finds wrong."""
    if not hasattr(program, "make_context"):
        program.parse_args(words)
    elif not hasattr(program, "commands"):
        program.make_context("", words, resilient_parsing="--help" in words)
    elif words and words[0] not in {"--help", *(flag for one in program.params for flag in one.opts)}:
        read(program.commands[words[0]], words[1:])


def wrong_with(program: str, words: list[str]) -> Iterator[str]:
    """Yield what is wrong with a command as far as its program need not be here."""
    paths = [word for word in words if any(one.startswith(word.partition("/")[0] + "/") for one in TRACKED)]
    yield from (path for path in paths if "/" in path and not (ROOT / path).exists())
    if program == "frameworkctl" or (program == "kubectl" and words[0] == "framework"):
        read(FRAMEWORKCTL, words[program == "kubectl" :])
    elif program == "make":
        goals = [word for word in words if "=" not in word]
        yield from (f"make {goal}" for goal in goals if not re.search(rf"^{goal}( .*)?:", MAKEFILE, re.MULTILINE))
        yield from (word for word in words if "=" in word and f"$({word.partition('=')[0]})" not in MAKEFILE)
    elif program.startswith("python") and words[0] == "-m":
        module = importlib.import_module(f"{words[1]}.__main__")
        read(typer.main.get_command(module.app) if hasattr(module, "app") else module._parser(), words[2:])
    elif program == "kubectl":
        verbs = r"(?:^| )(?:get|describe|delete|patch|label|annotate|scale|rollout \w+|top) (?!-)([^ ./]+)"
        for kind in ",".join(re.findall(verbs, " ".join(words))).split(",") if "-f" not in words else ():
            if kind and KINDS.isdisjoint({kind, kind.removesuffix("s"), kind.removesuffix("ies") + "y"}):
                yield f"kubectl has no {kind}"
    elif program not in PROGRAMS:
        yield f"{program} is not known"


@each("shell", SHELL.values(), ids=SHELL)
def test_commands_are_ones_that_their_programs_take(shell: str) -> None:
    assert [wrong for program, *words in words_of(shell) for wrong in wrong_with(program, words)] == []


@pytest.mark.parametrize(
    "name", [pytest.param("kubectl", marks=pytest.mark.apiserver), pytest.param("helm", marks=pytest.mark.chart)]
)
def test_kubectl_and_helm_have_each_verb_and_flag(name: str) -> None:
    program = chart.program(name)

    def said(words: tuple[str, ...]) -> str:
        own = words[: words.index("--") if "--" in words else None]
        done = subprocess.run([program, *own, "--help"], capture_output=True, text=True, check=False)
        is_group = "Available Commands:" in done.stdout and not {"-f", "-k", "--filename"} & {*own}
        return f"{own}: {done.stderr or 'there is no such command'}" if done.stderr or is_group else ""

    typed = [words for shell in SHELL.values() for words in words_of(shell) if words[0] == name]
    with ThreadPoolExecutor() as pool:
        assert [
            text for text in pool.map(said, [words[1:] for words in typed if words[1] != "framework"]) if text
        ] == []
