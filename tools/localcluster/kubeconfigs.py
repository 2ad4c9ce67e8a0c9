"""Kubeconfig files, written as JSON, which is YAML; certificates are embedded, so that a file can be moved."""

import base64
import json
from pathlib import Path
from typing import Any

from localcluster.pki import KeyPair


def with_token(server: str, ca_file: Path, token: str) -> dict[str, Any]:
    """Return a kubeconfig whose user has a bearer token."""
    return _config(server, ca_file, {"token": token})


def with_certificate(server: str, ca_file: Path, files: KeyPair) -> dict[str, Any]:
    """Return a kubeconfig whose user has a client certificate."""
    user = {"client-certificate-data": encoded(files.certificate), "client-key-data": encoded(files.key)}
    return _config(server, ca_file, user)


def write(file: Path, content: dict[str, Any]) -> Path:
    """Write a kubeconfig atomically, readable by its owner only, and return its path; an equal file is kept."""
    text = json.dumps(content, indent=1)
    if not file.exists() or file.read_text() != text:
        temporary = file.with_name(f"{file.name}.new")
        temporary.touch(0o600)
        temporary.write_text(text)
        temporary.replace(file)
    return file


def _config(server: str, ca_file: Path, user: dict[str, str]) -> dict[str, Any]:
    cluster = {"server": server, "certificate-authority-data": encoded(ca_file)}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "local", "cluster": cluster}],
        "users": [{"name": "local", "user": user}],
        "contexts": [{"name": "local", "context": {"cluster": "local", "user": "local"}}],
        "current-context": "local",
    }


def encoded(file: Path) -> str:
    """Return the content of a file as Kubernetes writes bytes in JSON."""
    return base64.b64encode(file.read_bytes()).decode()
