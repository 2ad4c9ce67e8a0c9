"""The files in `manifests/`, which configure the components of a node, filled with the values of a cluster."""

from pathlib import Path

_MANIFESTS = Path(__file__).parent / "manifests"


def filled(manifest: str, **values: str | Path) -> str:
    """Return the text of a file, with each value in the place of its `@NAME@`."""
    text = (_MANIFESTS / manifest).read_text()
    for name, value in values.items():
        text = text.replace(f"@{name}@", str(value))
    return text
