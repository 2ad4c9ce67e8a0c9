"""The manifest of the shipped configuration; ``python -m frameworkcontroller.engine.defaults`` prints it."""

from __future__ import annotations

import sys
from typing import Final

from .settings import FILE_NAME, default_config

CONFIG_MAP: Final = "frameworkcontroller-config"
NAMESPACE: Final = "frameworkcontroller-system"
_HEAD: Final = f"""\
# Made by `make manifests` from controller/frameworkcontroller/engine/default.yaml: edit that, or this in your cluster.
apiVersion: v1
kind: ConfigMap
metadata:
  name: {CONFIG_MAP}
  namespace: {NAMESPACE}
  labels: {{app.kubernetes.io/name: frameworkcontroller}}
data:
  {FILE_NAME}: |
"""


def manifest() -> str:
    """A ConfigMap that holds the default configuration, comments included."""
    return _HEAD + "".join(f"    {line}".rstrip() + "\n" for line in default_config().splitlines())


if __name__ == "__main__":
    sys.stdout.write(manifest())
