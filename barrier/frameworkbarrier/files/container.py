"""What rendering needs to know of this container: read once, so that rendering stays pure."""

import contextlib
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field

from frameworkbarrier.errors import SettingsError
from frameworkbarrier.files import interfaces
from frameworkbarrier.text import is_dns_name

ETC_HOSTS = "/etc/hosts"
TEMPLATE_SUFFIX = ".j2"
TEMPLATE_LIMIT = 1024 * 1024
"""Bytes of one template; a ConfigMap holds no more."""


@dataclass(frozen=True, slots=True)
class Container:
    """The container's own /etc/hosts as the kubelet made it, its host name, templates and network interfaces."""

    hosts: str = ""
    hostname: str = ""
    templates: Mapping[str, str] = field(default_factory=dict)
    """Name of the file to write to the text of the user's template."""
    interfaces: Mapping[str, str] = field(default_factory=dict)
    """Address to the name of the interface that holds it."""


def read(template_dir: str) -> Container:
    """Read what this container is like.

    Raises:
        SettingsError: the templates cannot be read.
    """
    hosts = ""
    with contextlib.suppress(OSError, UnicodeDecodeError), open(ETC_HOSTS, encoding="utf-8") as file:
        hosts = file.read()
    hostname = socket.gethostname()
    if not is_dns_name(hostname.lower()):
        hostname = ""  # Kubernetes sets none of this kind, and it would go into /etc/hosts
    templates = _templates(template_dir) if template_dir else {}
    return Container(hosts, hostname, templates, interfaces.read())


def _templates(folder: str) -> Mapping[str, str]:
    try:
        # Names that begin with a dot are the kubelet's own in a ConfigMap volume.
        names = sorted(name for name in os.listdir(folder) if name.endswith(TEMPLATE_SUFFIX) and name[0] != ".")
        texts = {}
        for name in names:
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                texts[name.removesuffix(TEMPLATE_SUFFIX)] = file.read(TEMPLATE_LIMIT + 1)
            if len(texts[name.removesuffix(TEMPLATE_SUFFIX)]) > TEMPLATE_LIMIT:
                raise SettingsError(f"FB_TEMPLATE_DIR={folder}: {name} is larger than 1 MiB")
    except (OSError, UnicodeDecodeError) as fault:
        raise SettingsError(f"FB_TEMPLATE_DIR={folder}: {fault}") from fault
    if not texts:
        raise SettingsError(f"FB_TEMPLATE_DIR={folder}: the folder has no *{TEMPLATE_SUFFIX}")
    return texts
