"""Directives for the pages of the reference: the fields of a Framework, the commands of frameworkctl."""

import dataclasses
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

import typer.main
from docutils import nodes
from sphinx import addnodes
from sphinx.util.docutils import SphinxDirective
from typer._click.core import Command, Context, Parameter
from typer.core import TyperGroup

from frameworkclient.cli.app import app as frameworkctl
from frameworkclient.cli.run import ClusterAndArchive
from frameworkcontroller.api import definition
from frameworkrelease.generate.fields import ADDED, Field, within

FACTS: Final = {
    "pattern": "matches `{}`",
    "minimum": "at least {:,}",
    "maximum": "at most {:,}",
    "maxItems": "at most {:,} entries",
}
"""What is said of a field, by the key of its schema."""
_WORD: Final = re.compile(r"\{([^}]+)\}")
"""An argument, as the usage of a command has it."""


class FrameworkFields(SphinxDirective):
    """Describe the fields of `spec` or `status`, each below the object that it is a part of.

    The content of a directive is for those who read the file.
    """

    required_arguments, has_content = 1, True

    def run(self) -> list[nodes.Node]:
        """Return the nodes."""
        part: str = self.arguments[0]
        schema = definition.schema()["properties"][part]
        return [*_told(schema), *map(self._described, within(part, schema))]

    def _described(self, field: Field) -> nodes.Node:
        parent, _, name = field.path.rpartition(".")
        signature = addnodes.desc_signature("", "", ids=[field.path], classes=["sig", "sig-object"])
        signature += [addnodes.desc_addname("", f"{parent}."), addnodes.desc_name("", name)]
        facts = nodes.paragraph("", "", *_inline(" · ".join(_facts(field))), classes=["facts"])
        inner = [*map(self._described, within(field.path, field.schema))]
        if inner:
            signature["_toc_name"] = name
        self.env.domains.standard_domain.note_object("field", field.path, field.path, location=self.get_location())
        content = addnodes.desc_content("", facts, *_told(field.schema), *inner)
        return addnodes.desc("", signature, content, domain="std", objtype="field", classes=["std", "field"])


def _facts(field: Field) -> Iterator[str]:
    schema, items = field.schema, field.schema.get("items", {})
    yield f"list of {items['type']}s" if items else schema["type"]
    if "format" in schema:
        yield schema["format"]
    if "enum" in schema:
        yield "one of " + ", ".join(f"`{value}`" for value in schema["enum"])
    yield from (text.format(schema[key]) for key, text in FACTS.items() if key in schema)
    yield from (f"one entry for each `{key}`" for key in schema.get("x-kubernetes-list-map-keys", ()))
    if "default" in schema:
        yield f"default `{json.dumps(schema['default'])}`"
    told = {"nullable": schema.get("nullable"), "required": field.required, "added": field.path.startswith(ADDED)}
    yield from (word for word, holds in told.items() if holds)


def _told(schema: Mapping[str, Any]) -> Iterator[nodes.Node]:
    """Yield the description of a schema, and what its rules say to whom they refuse."""
    yield nodes.paragraph("", schema["description"])
    rules = dict.fromkeys(rule["message"] for rule in schema.get("x-kubernetes-validations", ()))
    if rules:
        items = (nodes.list_item("", nodes.paragraph("", message)) for message in rules)
        yield nodes.paragraph("", "Refused with:")
        yield nodes.bullet_list("", *items)


def _inline(text: str) -> list[nodes.Node]:
    """Return text of which every other part is code, in backticks."""
    parts = enumerate(text.split("`"))
    return [nodes.literal("", part) if number % 2 else nodes.Text(part) for number, part in parts]


class FrameworkctlCommands(SphinxDirective):
    """Describe each command of `frameworkctl` in a section of its own."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """Return the nodes."""
        return self.parse_text_to_nodes("\n".join(_commands()), allow_section_headings=True)


def _commands() -> Iterator[str]:
    program = typer.main.get_command(frameworkctl)
    assert isinstance(program, TyperGroup)
    names = {one.name for one in dataclasses.fields(ClusterAndArchive)}
    shared = [one for one in program.commands["list"].params if one.name in names]
    yield from _section(program, "frameworkctl", program.get_params(_context(program)))
    for name, command in program.commands.items():
        yield from _section(command, f"frameworkctl {name}", command.params, _records(program, shared))
    yield from ("## Flags of the cluster", "", "Most commands take these:", "", "```{program} frameworkctl", "```", "")
    yield from _options(_records(program, shared))


def _section(
    command: Command, called: str, parameters: Sequence[Parameter], shared: Collection[tuple[str, str]] = ()
) -> Iterator[str]:
    """Yield the lines about a command; of the flags that others have, too, only that it takes them."""
    usage = " ".join([called, *command.collect_usage_pieces(_context(command))])
    example = (command.epilog or "").partition("\n")[0].replace("Example: ", "$ ")
    yield from (f"## `{called}`", "", command.help or "", "")
    yield from ("```console", _WORD.sub(lambda found: found[1].upper(), usage), example, "```", "")
    yield from (f"```{{program}} {called}", "```", "")
    records = _records(command, parameters)
    yield from _options([one for one in records if one not in shared])
    if others := [f"`{flag.split()[-2]}`" for flag, text in records if (flag, text) in shared]:
        yield from (f"[Flags of the cluster](#flags-of-the-cluster): {', '.join(others)}", "")


def _context(command: Command) -> Context:
    return command.context_class(command, **command.context_settings)


def _records(command: Command, parameters: Sequence[Parameter]) -> list[tuple[str, str]]:
    context = _context(command)
    return [record for one in parameters if (record := one.get_help_record(context))]


def _options(records: Sequence[tuple[str, str]]) -> Iterator[str]:
    for written, text in records:
        called = written.replace(" / ", ", ") if written.startswith("-") else written.upper()
        yield from (f"```{{option}} {called}", text, "```", "")
