"""The extension of Sphinx that makes pages of the site from what is no page: `docs/conf.py` names it."""

from typing import Any, Final

import yaml
from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

from frameworkcontroller.api import names
from frameworkrelease.chart import REPOSITORY
from frameworkrelease.generate import codes
from frameworkrelease.generate.reference import FrameworkctlCommands, FrameworkFields

SHOWN: Final = {".yaml": "yaml", ".py": "python", ".conf": "nginx", ".json": "json", ".xml": "xml"}
"""The files of an example that its page shows: their languages by suffix."""


def setup(app: Sphinx) -> dict[str, bool]:
    """Register what is below; Sphinx calls it."""
    app.connect("source-read", show_files)
    app.add_transform(IndexMessages)
    app.connect("autodoc-process-signature", show_defaults)
    app.connect("doctree-read", show_dashes)
    app.add_object_type("field", "field", objname="field of a Framework")
    app.add_directive("framework-fields", FrameworkFields)
    app.add_directive("frameworkctl-commands", FrameworkctlCommands)
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
    objects = yaml.safe_load_all((folder / "framework.yaml").read_text())
    name = next(one.get("metadata", {}).get("name", "NAME") for one in objects if one["kind"] == names.KIND)
    logs = f"`frameworkctl logs {name} --follow`, before they go with its Pods"
    apply = f"On {place}: `kubectl apply -k examples/{folder.name}`, and {logs}\n"
    source[0] += "\n".join(["\n## Files\n", apply, *shown])


class IndexMessages(SphinxTransform):
    """Let the search lead from a message, a code or a phrase to its row of the page of troubleshooting."""

    default_priority = 800
    """Before the domains of Sphinx, at 850, gather the entries of the index."""

    def apply(self, **_: object) -> None:
        """Make an entry of what is code in the first cell of a row, and of a second cell that is nothing else."""
        if self.env.doc2path(self.env.current_document.docname) != codes.PAGE:
            return
        for number, row in enumerate(self.document.findall(nodes.row)):
            first, second = list(row.findall(nodes.entry))[:2]
            found = [
                code.astext()
                for cell in (first, second)
                for code in cell.findall(nodes.literal)
                if cell is first or code.astext() == cell.astext()
            ]
            row["ids"].append(target := f"message-{number}")
            parts = {part.strip(" .:,()") for text in found for part in text.split("...")} - {""}
            entries = [("single", part, target, "main", None) for part in sorted(parts)]
            first.insert(0, addnodes.index(entries=entries, inline=True))


def show_defaults(*found: Any) -> tuple[str | None, str | None]:
    """Return a signature in which a default that a function makes is an expression, as Sphinx needs it."""
    *_, signature, returned = found
    return signature and signature.replace("<factory>", "..."), returned


def show_dashes(_: Sphinx, page: nodes.document) -> None:
    """Set a dash between a parameter and what it is, where autodoc has two hyphens."""
    for text in [*page.findall(nodes.Text)]:
        if text == " -- ":
            text.parent.replace(text, nodes.Text(" \N{EN DASH} "))
