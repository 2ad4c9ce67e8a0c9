"""Jinja2, set up once for presets and users' templates: sandboxed, and an unknown name is an error.

Imported only when there is something to render: Jinja2 costs 20 ms and 3 MiB.
"""

from collections.abc import Mapping
from typing import Any

from jinja2 import StrictUndefined, TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from .errors import SettingsError
from .variables import compact_json

_ENVIRONMENT = ImmutableSandboxedEnvironment(
    undefined=StrictUndefined,
    autoescape=False,  # files for programs, not HTML
    keep_trailing_newline=True,
)
_ENVIRONMENT.filters["json"] = compact_json


def render(name: str, source: str, context: Mapping[str, Any]) -> str:
    """Render one template.

    Raises:
        SettingsError: it cannot be rendered; names the template and the line where there is one.
    """
    try:
        return _ENVIRONMENT.from_string(source).render(context)
    except TemplateError as fault:
        line = getattr(fault, "lineno", None)
        raise SettingsError(f"template {name}{f', line {line}' if line else ''}: {fault.message}") from fault
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError) as fault:
        raise SettingsError(f"template {name}: {type(fault).__name__}: {fault}") from fault
