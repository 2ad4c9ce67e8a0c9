"""Jinja2, set up once for presets and users' templates: sandboxed, and an unknown name is an error.

It is imported only when there is something to render: Jinja2 takes 20 ms and 3 MiB.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

from jinja2 import StrictUndefined, Template, TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from frameworkbarrier.errors import SettingsError
from frameworkbarrier.files.variables import compact_json
from frameworkbarrier.text import bracketed

_ENVIRONMENT = ImmutableSandboxedEnvironment(
    undefined=StrictUndefined,
    autoescape=False,  # files for programs, not HTML
    keep_trailing_newline=True,
)
_ENVIRONMENT.filters["json"] = compact_json
_ENVIRONMENT.filters["host"] = bracketed


@cache
def compile_template(name: str, source: str) -> Template:
    """Check and compile a template.

    Raises:
        SettingsError: its syntax is wrong; names the template, and the line where there is one.
    """
    try:
        return _ENVIRONMENT.from_string(source)
    except Exception as fault:  # what Jinja2 accepts may be too deep or too long for Python
        raise _explain(name, fault) from fault


def render(name: str, source: str, values: Mapping[str, Any]) -> str:
    """Render one template.

    Raises:
        SettingsError: it cannot be rendered, or refuses the gang; names the template, and the line where there is one.
    """
    template = compile_template(name, source)
    try:
        text = template.render(values)
        text.encode()  # half of a surrogate pair cannot be written
    except SettingsError:  # by `fail`
        raise
    except Exception as fault:  # a template can make any call fail in any way
        raise _explain(name, fault) from fault
    return text


def _explain(name: str, fault: Exception) -> SettingsError:
    # That of a SyntaxError is one of the Python code that Jinja2 has made.
    line = None if isinstance(fault, SyntaxError) else getattr(fault, "lineno", None)
    trace = fault.__traceback__
    while line is None and trace is not None:
        if trace.tb_frame.f_code.co_filename == "<template>":
            line = trace.tb_lineno
        trace = trace.tb_next
    what = str(fault) if isinstance(fault, TemplateError) else f"{type(fault).__name__}: {fault}"
    return SettingsError(f"template {name}{f', line {line}' if line else ''}: {what}")
