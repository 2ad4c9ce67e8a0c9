"""The reference of the SDK, made from its docstrings."""

from __future__ import annotations

import dataclasses
import inspect
import re
from typing import TYPE_CHECKING, Any, Final

import frameworkclient
from frameworkclient import errors
from frameworkrelease.chart import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Iterator

FILE: Final = REPOSITORY / "docs" / "reference" / "sdk.md"
_HEAD: Final = """\
<!-- Made by `make manifests` from the docstrings of client/frameworkclient; do not edit. -->
# The SDK

Everything that `frameworkclient` exports. [The guide](../sdk.md) shows how the parts work together. `AsyncClient` has
the methods of `Client`: those that return something are coroutines, and `watch` is an asynchronous generator. Instead
of `logs` it has `log_batches(name, selection, *, follow, namespace)`, which yields batches of lines as they arrive.
"""
_SHOWN: Final = (
    "Client",
    "Framework",
    "Role",
    "RetryPolicy",
    "CompletionPolicy",
    "Dependency",
    "pod_template",
    "FrameworkView",
    "RoleView",
    "TaskView",
    "Result",
    "LogLine",
    "EventView",
    "Impersonation",
)
_SECTION: Final = re.compile(r"^(Args|Returns|Raises|Yields|Attributes):$")


def text() -> str:
    """Return the page."""
    parts = [_HEAD]
    for name in _SHOWN:
        parts += _described(name, getattr(frameworkclient, name))
    parts.append("## Errors\n")
    parts.append("| error | means |\n| --- | --- |")
    parts += [f"| `{kind.__name__}` | {_summary(kind)} |" for kind in _errors()]
    return "\n".join(parts) + "\n"


def _errors() -> Iterator[type[Exception]]:
    for _, kind in inspect.getmembers(errors, inspect.isclass):
        if issubclass(kind, errors.ClientError):
            yield kind


def _described(name: str, thing: Any) -> Iterator[str]:
    yield f"## `{name}`\n"
    if inspect.isfunction(thing):
        yield f"`{name}{_signature(thing)}`\n"
        yield _prose(inspect.getdoc(thing) or "")
        return
    yield _prose(inspect.getdoc(thing) or "")
    if dataclasses.is_dataclass(thing) or hasattr(thing, "__struct_fields__"):
        yield f"`{name}({', '.join(_fields(thing))})`\n"
    for member, value in vars(thing).items():
        if member.startswith("_"):
            continue
        if isinstance(value, property) or type(value).__name__ == "cached_property":
            getter = value.fget if isinstance(value, property) else value.func
            yield f"- `{member}`: {_one_line(inspect.getdoc(getter) or '')}"
        elif isinstance(value, classmethod):
            yield from _method(name, member, value.__func__)
        elif inspect.isfunction(value):
            yield from _method(name, member, value)
    yield ""


def _fields(thing: Any) -> Iterator[str]:
    found = inspect.signature(thing).parameters.values()
    for one in found:
        default = one.default
        yield one.name if default is inspect.Parameter.empty or not _is_plain(default) else f"{one.name}={default!r}"


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float | bool | tuple)


def _method(owner: str, name: str, function: Any) -> Iterator[str]:
    yield f"\n### `{owner}.{name}{_signature(function)}`\n"
    yield _prose(inspect.getdoc(function) or "")


def _signature(function: Any) -> str:
    """Return the parameters without their types, which the prose explains."""
    parts = []
    star = False
    for one in inspect.signature(function).parameters.values():
        if one.name in {"self", "cls"}:
            continue
        if one.kind is inspect.Parameter.KEYWORD_ONLY and not star:
            parts.append("*")
            star = True
        prefix = "**" if one.kind is inspect.Parameter.VAR_KEYWORD else ""
        has_default = one.default is not inspect.Parameter.empty
        parts.append(f"{prefix}{one.name}" + (f"={one.default!r}" if has_default else ""))
    return f"({', '.join(parts)})"


def _summary(thing: Any) -> str:
    return (inspect.getdoc(thing) or "").split("\n\n")[0].replace("\n", " ")


def _one_line(doc: str) -> str:
    return doc.replace("\n", " ")


def _prose(doc: str) -> str:
    """Return a docstring as Markdown: the entries of its sections become lists."""
    lines = []
    inside = False
    for line in doc.splitlines():
        if section := _SECTION.match(line):
            lines.append(f"{section[1]}:\n")
            inside = True
        elif inside and re.match(r"^    \S", line):
            name, colon, rest = line.strip().partition(": ")
            entry = f"- `{name}`: {rest}" if colon and re.fullmatch(r"[\w, ]+", name) else f"- {line.strip()}"
            lines.append(entry)
        elif inside and line.startswith("        "):
            lines.append(f"  {line.strip()}")
        else:
            inside = inside and not line
            lines.append(line)
    return "\n".join(lines).rstrip() + "\n"
