"""The extension of Sphinx that makes pages of the site from what is no page: `docs/conf.py` names it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from frameworkrelease.chart import REPOSITORY

if TYPE_CHECKING:
    from sphinx.application import Sphinx

SHOWN: Final = {".yaml": "yaml", ".py": "python", ".conf": "nginx", ".json": "json", ".xml": "xml"}
"""The files of an example that its page shows: their languages by suffix."""


def setup(app: Sphinx) -> dict[str, bool]:
    """Register what is below; Sphinx calls it."""
    app.connect("source-read", show_files)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def show_files(_: Sphinx, page: str, source: list[str]) -> None:
    """Let the page of an example end with how to apply it and with its files, the manifests first."""
    folder = (REPOSITORY / page).parent
    if not (folder / "framework.yaml").exists():
        return
    files = sorted(
        (file for file in folder.iterdir() if file.suffix in SHOWN and file.stem not in {"kustomization", "steps"}),
        key=lambda file: (file.suffix != ".yaml", file.name),
    )
    shown = (
        f"### `{file.name}`\n\n```{{literalinclude}} {file.name}\n:language: {SHOWN[file.suffix]}\n```\n"
        for file in files
    )
    place = "[a cluster of your own](../README.md#on-a-cluster-of-your-own)"
    apply = f"On {place}: `kubectl apply -k examples/{folder.name}`\n"
    source[0] += "\n".join(["\n## Files\n", apply, *shown])
