"""The commands for people, `render` and `audit`: read, call the decision, print.

`__main__` calls them with parsed arguments and two streams. They promise to return an exit code and to raise nothing
that a user can cause.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final, TextIO

import msgspec
import yaml

from frameworkinjector.documents import RenderError, objects_in
from frameworkinjector.errors import RefusalError
from frameworkinjector.render import rendered

if TYPE_CHECKING:
    from pathlib import Path

    from frameworkinjector.audit import Finding
    from frameworkinjector.config import Config, EnvFiles
    from frameworkkube.credentials import Endpoint

EXIT_REFUSED: Final = 1
EXIT_FOUND: Final = 1
EXIT_ERROR: Final = 2


class UnreadableError(RenderError):
    """The file is neither JSON nor YAML."""


def render(file: Path | None, config: Config, env_files: EnvFiles, *, as_json: bool, out: TextIO, err: TextIO) -> int:
    """Print each document of a file (None: standard input) as it would be after the injection.

    Each object of a List becomes a document, and one without a Pod stays as it is.

    Returns:
        0, or 1 if a Pod would be refused, or 2 if a document cannot be read or there is no Pod.
    """
    try:
        text = sys.stdin.read() if file is None else file.read_text()
        results, refused = _rendered_objects(_objects(_documents(text)), config, env_files, err)
    except (RenderError, OSError, UnicodeDecodeError) as error:
        print(f"frameworkinjector: {error}", file=err)
        return EXIT_ERROR
    if refused:
        return EXIT_REFUSED
    out.write(_text(results, as_json=as_json))
    return 0


def _rendered_objects(
    objects: list[tuple[str, Any]], config: Config, env_files: EnvFiles, err: TextIO
) -> tuple[list[Any], bool]:
    """Return the objects as they would be, and whether a Pod would be refused; print what became of each Pod.

    Raises:
        RenderError: An object cannot be read, or there is no Pod at all.
    """
    results, pods, refused = [], 0, False
    for where, document in objects:
        is_lone_pod = len(objects) == 1 and not where and document.get("kind", "Pod") == "Pod"
        title = "" if is_lone_pod else _title(where, document)
        try:
            result, found = rendered(document, config, env_files)
        except RefusalError as error:
            print(f"frameworkinjector: refused: {_place(title, error.where)}{error}", file=err)
            pods, refused = pods + 1, True
            continue
        except RenderError as error:
            raise RenderError(f"{_place(title, '')}{error}") from error
        results.append(result)
        pods += len(found)
        for one in found:
            for line in (one.verdict.sentence, *one.warnings):
                print(f"# {_place(title, one.where)}{line}", file=err)
        if not found and len(objects) > 1:
            print(f"# {title} holds no Pod and stays as it is.", file=err)
    if not pods:
        holder = _title(*objects[0]) if len(objects) == 1 else "The file"
        raise RenderError(f"{holder} holds no Pod: there is neither spec.containers nor a Pod template")
    return results, refused


def _objects(documents: list[Any]) -> list[tuple[str, Any]]:
    several = len(documents) > 1
    return [
        pair
        for number, document in enumerate(documents, 1)
        for pair in objects_in(document, f"document {number}" if several else "")
    ]


def _place(title: str, where: str) -> str:
    """Return how a line about a Pod begins: `document 2, Job train, spec.template: `."""
    place = ", ".join(filter(None, (title, where)))
    return f"{place}: " if place else ""


def _title(where: str, document: Any) -> str:
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return f"{where}{', ' if where else ''}{document.get('kind', 'object')}{f' {name}' if name else ''}"


def audit(endpoint: Endpoint, namespace: str | None, *, as_json: bool, out: TextIO, err: TextIO) -> int:
    """Print the Pods that carry the label and lack the barrier.

    Returns:
        0 if there is none, 1 if there is one, 2 if the API server cannot be asked.
    """
    from frameworkkube.errors import KubeError

    try:
        found = asyncio.run(_findings(endpoint, namespace))
    except KubeError as error:
        print(f"frameworkinjector: {error}", file=err)
        return EXIT_ERROR
    if as_json:
        out.write(msgspec.json.encode([asdict(one) for one in found]).decode() + "\n")
    else:
        rows = [("NAMESPACE", "NAME", "PHASE", "CREATED"), *((f.namespace, f.name, f.phase, f.created) for f in found)]
        widths = [max(len(row[column]) for row in rows) for column in range(4)]
        for row in rows if found else ():
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip(), file=out)
        print(f"{len(found)} Pods carry the label and lack the barrier", file=err)
    return EXIT_FOUND if found else 0


async def _findings(endpoint: Endpoint, namespace: str | None) -> list[Finding]:
    from frameworkinjector.audit import findings
    from frameworkkube.rest import KubeClient

    client = KubeClient(endpoint, user_agent="frameworkinjector-audit", max_connections=2)
    try:
        return [one async for one in findings(client, namespace)]
    finally:
        await client.close()


def _documents(text: str) -> list[Any]:
    """Return the documents of a file: one in JSON, or any number in YAML."""
    with contextlib.suppress(msgspec.DecodeError, RecursionError):
        return [msgspec.json.decode(text)]
    try:
        return [document for document in yaml.safe_load_all(text) if document is not None]
    except (yaml.YAMLError, RecursionError) as error:
        raise UnreadableError(f"the file is neither JSON nor YAML: {error}") from error


def _text(documents: list[Any], *, as_json: bool) -> str:
    if as_json:
        return "".join(msgspec.json.format(msgspec.json.encode(one), indent=2).decode() + "\n" for one in documents)
    dumped: str = yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True)
    return dumped


class _Dumper(yaml.SafeDumper):
    """Writes each value out, without aliases, and text of several lines as a block."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 -- PyYAML's signature
        return True


def _block(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _block)
