"""YAML for people: keys in their order, no anchors, long texts as blocks."""

from __future__ import annotations

from typing import Any

import yaml


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 -- PyYAML's signature
        return True


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def dump(document: dict[str, Any], source: str) -> str:
    """Return a document with a first line that says from where `make manifests` writes it."""
    dumped: str = yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=120)
    return f"# Written by `make manifests` from {source}.\n{dumped}"
