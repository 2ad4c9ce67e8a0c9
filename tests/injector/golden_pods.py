"""The golden Pods and their outcomes, read from files; `test_goldens` describes their folders."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from frameworkinjector.review.config import Config, EnvFiles
from tests.injector.reviews import CONFIG

GOLDEN = Path(__file__).parent / "golden"
CASES = sorted(path.name for path in GOLDEN.iterdir() if path.is_dir())
INJECTED = sorted(path.parent.name for path in GOLDEN.glob("*/injected.yaml"))
REFUSED = sorted(path.parent.name for path in GOLDEN.glob("*/refused.txt"))

JSON = dict[str, Any]


def _read(case: str, name: str) -> JSON:
    loaded: JSON = yaml.safe_load((GOLDEN / case / name).read_text())
    return loaded


def pod_of(case: str) -> JSON:
    return _read(case, "pod.yaml")


def injected_of(case: str) -> JSON:
    return _read(case, "injected.yaml")


def _options_of(case: str) -> JSON:
    options = _read(case, "case.yaml") if (GOLDEN / case / "case.yaml").exists() else {}
    assert set(options) <= {"envFiles", "foreignGangs", "inPlaceRestart"}
    return options


def env_files_of(case: str) -> EnvFiles:
    return EnvFiles(_options_of(case).get("envFiles", "quoted"))


def config_of(case: str) -> Config:
    """Return the configuration with what else the cluster of the case supports."""
    options = _options_of(case)
    restarts, others = options.get("inPlaceRestart", True), options.get("foreignGangs", False)
    return replace(CONFIG, in_place_restart=restarts, foreign_gangs=others)
