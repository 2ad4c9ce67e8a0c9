"""Frameworks from Python and from the command line: `Client`, `AsyncClient`, and `frameworkctl` on top of them.

```python
from frameworkclient import Client, Framework, Role

with Client() as client:
    client.create(Framework("training", [Role.container("worker", 4, image="my-image", preset="pytorch")]))
    for line in client.logs("training", follow=True):
        print(line)
```

What needs a library is imported when it is first used, so that the command line starts quickly.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from frameworkclient.errors import (
    AccessError,
    AlreadyExistsError,
    ArgumentError,
    ClientError,
    ConflictError,
    DeletedError,
    FailedError,
    ForbiddenError,
    InvalidError,
    ManifestError,
    NotFoundError,
    RefusedError,
    UnreachableError,
    WaitTimeoutError,
)
from frameworkclient.version import __version__

if TYPE_CHECKING:
    from frameworkclient.access import Impersonation
    from frameworkclient.aio import AsyncClient
    from frameworkclient.archive import Archived
    from frameworkclient.client import Client
    from frameworkclient.code import read_code
    from frameworkclient.logs.lines import LogLine
    from frameworkclient.model.code import Code
    from frameworkclient.model.manifest import (
        CompletionPolicy,
        Dependency,
        Framework,
        GangScheduling,
        RetryPolicy,
        Role,
    )
    from frameworkclient.model.pod_template import pod_template
    from frameworkclient.views.events import EventView
    from frameworkclient.views.framework import FrameworkView, Result, RoleView, TaskView
    from frameworkclient.views.html import FrameworkViews

_HOMES = {
    "access": ("Impersonation",),
    "aio": ("AsyncClient",),
    "archive": ("Archived",),
    "client": ("Client",),
    "code": ("read_code",),
    "views.events": ("EventView",),
    "logs.lines": ("LogLine",),
    "model.code": ("Code",),
    "model.manifest": ("CompletionPolicy", "Dependency", "Framework", "GangScheduling", "RetryPolicy", "Role"),
    "model.pod_template": ("pod_template",),
    "views.framework": ("FrameworkView", "Result", "RoleView", "TaskView"),
    "views.html": ("FrameworkViews",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "AccessError",
    "AlreadyExistsError",
    "Archived",
    "ArgumentError",
    "AsyncClient",
    "Client",
    "ClientError",
    "Code",
    "CompletionPolicy",
    "ConflictError",
    "DeletedError",
    "Dependency",
    "EventView",
    "FailedError",
    "ForbiddenError",
    "Framework",
    "FrameworkView",
    "FrameworkViews",
    "GangScheduling",
    "Impersonation",
    "InvalidError",
    "LogLine",
    "ManifestError",
    "NotFoundError",
    "RefusedError",
    "Result",
    "RetryPolicy",
    "Role",
    "RoleView",
    "TaskView",
    "UnreachableError",
    "WaitTimeoutError",
    "__version__",
    "pod_template",
    "read_code",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
