"""Files of other projects, such as their CustomResourceDefinitions, out of pinned Go modules.

A Go module contains the files of its repository, so a Go module proxy is enough to have them. Go itself unpacks them
into its cache; nothing is built.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from localcluster.errors import BinaryError
from localcluster.programs.catalogue import GO_MODULES, MODULES, pinned_version
from localcluster.programs.gobuild import download, go_command
from localcluster.progress import task

CERT_MANAGER: Final = "github.com/cert-manager/cert-manager@v1.19.1", "h1:Txh8L/nLWTDcb7ZnXuXbTe15BxQnLbLirXmbNk0fGgY="
"""A module, `PATH@VERSION`, and the checksum of its files as in a go.sum."""


def of_program(project: str) -> tuple[str, str]:
    """Return the module of a program that is built, and its checksum, as its go.mod and go.sum pin them."""
    line = f"{MODULES[project]} v{pinned_version(project)}"
    text = (GO_MODULES / project / "go.sum").read_text()
    return line.replace(" ", "@"), text.partition(f"\n{line} ")[2].partition("\n")[0]


def folder_of(module: str, checksum: str, environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder with the files of a module, which Go downloads where they are missing.

    Raises:
        BinaryError: There is no Go, the proxy does not have the module, or its files are not those that are pinned.
    """
    with task(f"fetch {module}"):
        answer = download(go_command(environ), module, environ)
    if answer["Sum"] != checksum:
        raise BinaryError(f"{module} has the checksum {answer['Sum']}, {checksum} is pinned")
    return Path(answer["Dir"])
