"""Files of other projects, such as their CustomResourceDefinitions, out of pinned Go modules.

A Go module contains the files of its repository, so a Go module proxy is enough to have them. Go itself unpacks them
into its cache; nothing is built.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from localcluster.errors import BinaryError
from localcluster.programs.catalogue import GO_MODULES, MODULES, pinned_version
from localcluster.programs.gobuild import download, go_command
from localcluster.progress import task


@dataclass(frozen=True)
class Module:
    """One version of a module, without `v`, with the checksum of its files as in a go.sum."""

    path: str
    version: str
    checksum: str


CERT_MANAGER: Final = Module(
    "github.com/cert-manager/cert-manager", "1.19.1", "h1:Txh8L/nLWTDcb7ZnXuXbTe15BxQnLbLirXmbNk0fGgY="
)


def of_program(project: str) -> Module:
    """Return the module of a program that is built, as its go.mod and go.sum pin it."""
    path, version = MODULES[project], pinned_version(project)
    text = (GO_MODULES / project / "go.sum").read_text()
    return Module(path, version, text.partition(f"\n{path} v{version} ")[2].partition("\n")[0])


def folder_of(module: Module, environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder with the files of a module, which Go downloads where they are missing.

    Raises:
        BinaryError: There is no Go, the proxy does not have the module, or its files are not those that are pinned.
    """
    name = f"{module.path}@v{module.version}"
    with task(f"fetch {name}"):
        answer = download(go_command(environ), name, environ)
    if answer["Sum"] != module.checksum:
        raise BinaryError(f"{name} has the checksum {answer['Sum']}, {module.checksum} is pinned")
    return Path(answer["Dir"])
