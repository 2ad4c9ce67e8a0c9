"""The golden Pods and their outcomes, read from files; `test_goldens` describes their folders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from frameworkinjector.config import EnvFiles

GOLDEN = Path(__file__).parent / "golden"
CASES = sorted(path.name for path in GOLDEN.iterdir() if path.is_dir())
INJECTED = sorted(path.parent.name for path in GOLDEN.glob("*/injected.yaml"))
REFUSED = sorted(path.parent.name for path in GOLDEN.glob("*/refused.txt"))

JSON = dict[str, Any]


def pod_of(case: str) -> JSON:
    """Return the Pod that is reviewed."""
    loaded: JSON = yaml.safe_load((GOLDEN / case / "pod.yaml").read_text())
    return loaded


def injected_of(case: str) -> JSON:
    """Return the Pod after the injection."""
    loaded: JSON = yaml.safe_load((GOLDEN / case / "injected.yaml").read_text())
    return loaded


def env_files_of(case: str) -> EnvFiles:
    """Return what the cluster of the case supports."""
    options = GOLDEN / case / "case.yaml"
    loaded = yaml.safe_load(options.read_text()) if options.exists() else {}
    assert set(loaded) <= {"envFiles"}
    return EnvFiles(loaded.get("envFiles", "quoted"))
