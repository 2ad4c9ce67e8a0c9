"""The commands for people: ``render`` and ``audit``."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final, TextIO

import msgspec
import yaml

from frameworkinjector.errors import RefusalError
from frameworkinjector.render import RenderError, rendered

if TYPE_CHECKING:
    from pathlib import Path

    from frameworkcontroller.cluster.credentials import Endpoint
    from frameworkinjector.audit import Finding
    from frameworkinjector.config import Config, EnvFiles

REFUSED: Final = 1
FOUND: Final = 1
WRONG: Final = 2


class UnreadableError(RenderError):
    """A file that is neither JSON nor YAML."""


def render(file: Path | None, config: Config, env_files: EnvFiles, *, as_json: bool, out: TextIO, err: TextIO) -> int:
    """Prints each document of a file (None: standard input) as it would be after injection.

    Returns:
        0, or 1 if a Pod would be refused, or 2 if a document cannot be read.
    """
    try:
        text = sys.stdin.read() if file is None else file.read_text()
        documents = _documents(text)
        results = []
        for document in documents:
            result, found, warnings = rendered(document, config, env_files)
            results.append(result)
            for line in (found.sentence, *warnings):
                print(f"# {line}", file=err)
    except RefusalError as error:
        print(f"frameworkinjector: refused: {error}", file=err)
        return REFUSED
    except (RenderError, OSError, UnicodeDecodeError) as error:
        print(f"frameworkinjector: {error}", file=err)
        return WRONG
    out.write(_text(results, as_json=as_json))
    return 0


def audit(endpoint: Endpoint, namespace: str | None, *, as_json: bool, out: TextIO, err: TextIO) -> int:
    """Prints the Pods that carry the label and lack the barrier.

    Returns:
        0 if there is none, 1 if there is one, 2 if the API server cannot be asked.
    """
    from frameworkcontroller.cluster.errors import KubeError

    try:
        found = asyncio.run(_findings(endpoint, namespace))
    except KubeError as error:
        print(f"frameworkinjector: {error}", file=err)
        return WRONG
    if as_json:
        out.write(msgspec.json.encode([asdict(one) for one in found]).decode() + "\n")
    else:
        rows = [("NAMESPACE", "NAME", "PHASE", "CREATED"), *((f.namespace, f.name, f.phase, f.created) for f in found)]
        widths = [max(len(row[column]) for row in rows) for column in range(4)]
        for row in rows if found else ():
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip(), file=out)
        print(f"{len(found)} Pods carry the label and lack the barrier", file=err)
    return FOUND if found else 0


async def _findings(endpoint: Endpoint, namespace: str | None) -> list[Finding]:
    from frameworkcontroller.cluster.rest import KubeClient
    from frameworkinjector.audit import findings

    client = KubeClient(endpoint, user_agent="frameworkinjector-audit", max_connections=2)
    try:
        return [one async for one in findings(client, namespace)]
    finally:
        await client.close()


def _documents(text: str) -> list[Any]:
    """The documents of a file: one in JSON, or any number in YAML."""
    with contextlib.suppress(msgspec.DecodeError, RecursionError):
        return [msgspec.json.decode(text)]
    try:
        return [document for document in yaml.safe_load_all(text) if document is not None]
    except (yaml.YAMLError, RecursionError) as error:
        raise UnreadableError(f"the file is neither JSON nor YAML: {error}") from error


def _text(documents: list[Any], *, as_json: bool) -> str:
    if as_json:
        return "".join(msgspec.json.format(msgspec.json.encode(one), indent=2).decode() + "\n" for one in documents)
    dumped: str = yaml.safe_dump_all(documents, sort_keys=False, width=120)
    return dumped
