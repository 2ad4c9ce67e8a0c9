"""What the barrier writes for one Task of a gang, and the variables that an application reads there."""

import re
from typing import Any

from frameworkbarrier import settings
from frameworkbarrier.files.container import Container
from frameworkbarrier.files.output import File
from frameworkbarrier.files.render import Rendered, render
from tests.barrier.gangs import environment, released

Roster = dict[str, Any]
Files = dict[str, File]
PLAIN = Container()


def rendered(
    document: Roster, role: str = "worker", index: int = 0, own: Container = PLAIN, /,
    framework: dict[str, Any] | None = None, **env: str,
) -> Rendered:  # fmt: skip
    """What is made of a roster for one of its Tasks, in this container, with these settings."""
    read = settings.parse(environment(role, index, **env))
    return render(released(document, role, index), read, own, framework)


def files(document: Roster, role: str = "worker", index: int = 0, own: Container = PLAIN, /, **env: str) -> Files:
    """The files by their names."""
    return {file.name: file for file in rendered(document, role, index, own, **env).files}


def variables(document: Roster, role: str = "worker", index: int = 0, /, **env: str) -> dict[str, str]:
    """What the file `env` sets."""
    return read_env_file(files(document, role, index, **env)["env"].data.decode())


def read_env_file(text: str) -> dict[str, str]:
    """The kubelet's rules of 1.35: NAME='value', nothing else, no line of 64 KiB."""
    values = {}
    while text:
        name, rest = text.split("='", 1)
        value, text = rest.split("'\n", 1)
        assert re.fullmatch("[A-Z][A-Za-z0-9_]*", name)
        values[name] = value
    return values
