"""A kubeconfig, for tests of what reads one and of programs that are given one."""

from pathlib import Path
from typing import Any

import yaml


def kubeconfig(
    file: Path, *, user: dict[str, Any] | None = None, cluster: dict[str, Any] | None = None, **more: Any
) -> str:
    """Write one with a token; what is given replaces the user, or a part of the cluster or of the file.

    Returns:
        The name of the file.
    """
    both = {"cluster": "c", "user": "u"}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1", **(cluster or {})}}],
        "users": [{"name": "u", "user": {"token": "secret"} if user is None else user}],
        "contexts": [{"name": "home", "context": both | {"namespace": "team"}}, {"name": "bare", "context": both}],
        "current-context": "home",
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(yaml.safe_dump(config | more))
    return str(file)
