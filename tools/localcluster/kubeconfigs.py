"""Kubeconfig files, written as JSON, which is YAML; certificates are embedded, so that a file can be moved."""

import base64
import json
from collections.abc import Mapping
from pathlib import Path


def write(file: Path, server: str, ca_file: Path, user: Mapping[str, str]) -> Path:
    """Write a kubeconfig of a user, such as `{"token": ...}`, and return its path; an equal file is kept.

    It is written atomically, and readable by its owner only.
    """
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "local", "cluster": {"server": server, "certificate-authority-data": encoded(ca_file)}}],
        "users": [{"name": "local", "user": user}],
        "contexts": [{"name": "local", "context": {"cluster": "local", "user": "local"}}],
        "current-context": "local",
    }
    text = json.dumps(content, indent=1)
    if not file.exists() or file.read_text() != text:
        temporary = file.with_name(f"{file.name}.new")
        temporary.touch(0o600)
        temporary.write_text(text)
        temporary.replace(file)
    return file


def encoded(file: Path) -> str:
    """Return the content of a file as Kubernetes writes bytes in JSON."""
    return base64.b64encode(file.read_bytes()).decode()
