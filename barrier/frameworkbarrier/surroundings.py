"""What the files need to know of this container: read once, so that rendering stays pure."""

import contextlib
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field

from .errors import SettingsError

ETC_HOSTS = "/etc/hosts"
TEMPLATE_SUFFIX = ".j2"
TEMPLATE_LIMIT = 1024 * 1024
"""Bytes of one template; a ConfigMap holds no more."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The container's own /etc/hosts as the kubelet made it, its host name, and the user's templates by file name."""

    hosts: str = ""
    hostname: str = ""
    templates: Mapping[str, str] = field(default_factory=dict)
    """Name of the file to write to the template's text."""


def look(template_dir: str) -> Surroundings:
    """Read them.

    Raises:
        SettingsError: the templates cannot be read.
    """
    hosts = ""
    with contextlib.suppress(OSError, UnicodeDecodeError), open(ETC_HOSTS, encoding="utf-8") as file:  # noqa: PTH123
        hosts = file.read()
    return Surroundings(hosts, socket.gethostname(), _templates(template_dir) if template_dir else {})


def _templates(folder: str) -> Mapping[str, str]:
    try:
        # Names that begin with a dot are the kubelet's own in a ConfigMap volume.
        names = sorted(name for name in os.listdir(folder) if name.endswith(TEMPLATE_SUFFIX) and name[0] != ".")  # noqa: PTH208
        texts = {}
        for name in names:
            with open(os.path.join(folder, name), encoding="utf-8") as file:  # noqa: PTH118, PTH123
                texts[name.removesuffix(TEMPLATE_SUFFIX)] = file.read(TEMPLATE_LIMIT + 1)
            if len(texts[name.removesuffix(TEMPLATE_SUFFIX)]) > TEMPLATE_LIMIT:
                raise SettingsError(f"FB_TEMPLATE_DIR={folder}: {name} has more than 1 MiB")
    except (OSError, UnicodeDecodeError) as fault:
        raise SettingsError(f"FB_TEMPLATE_DIR={folder}: {fault}") from fault
    if not texts:
        raise SettingsError(f"FB_TEMPLATE_DIR={folder}: holds no *{TEMPLATE_SUFFIX}")
    return texts
