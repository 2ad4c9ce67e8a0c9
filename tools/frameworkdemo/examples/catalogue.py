"""The examples: folders of `examples/` with a Framework, what they apply, and the images that they need."""

import re
import runpy
from collections.abc import Callable, Iterable
from pathlib import Path

from frameworkdemo import manifests
from frameworkdemo.errors import DemoError
from frameworkdemo.examples.example import Example

FOLDER = manifests.REPOSITORY / "examples"
_OWN_IMAGE = re.compile(r"docker\.io/frameworkcontroller/([a-z0-9-]+):dev")


def names() -> list[str]:
    """Return the names of all examples, sorted."""
    return sorted(file.parent.name for file in FOLDER.glob("*/kustomization.yaml"))


def folder_of(name: str) -> Path:
    """Return the folder of an example."""
    if name not in names():
        raise DemoError(f"there is no example {name!r}; choose from: {', '.join(names())}")
    return FOLDER / name


def images_of(folders: Iterable[Path]) -> list[str]:
    """Return the names of the project's images that examples use, beside those of the three programs, sorted."""
    files = [file for folder in folders for pattern in ("*.yaml", "*.py") for file in folder.glob(pattern)]
    found = {name for file in files for name in _OWN_IMAGE.findall(file.read_text())}
    return sorted(found - set(manifests.PROGRAM_IMAGES))


def steps_of(folder: Path) -> Callable[[Example], None]:
    """Return the steps of an example: the function `steps` of its `steps.py`; without one, it runs and succeeds."""
    file = folder / "steps.py"
    if not file.is_file():
        return _runs_and_succeeds
    steps: Callable[[Example], None] = runpy.run_path(str(file))["steps"]
    return steps


def _runs_and_succeeds(example: Example) -> None:
    example.apply()
    example.ends()
