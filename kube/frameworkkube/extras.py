"""Programs of the wheel, started by name: one whose extra is not installed says which it is, in one line."""

import sys
from functools import partial
from importlib import import_module


def _start(package: str, extra: str, function: str = "main") -> None:
    try:
        code = getattr(import_module(f"{package}.__main__"), function)()
    except ModuleNotFoundError as missing:
        code = f"the package {missing.name} is missing: pip install 'frameworkcontroller[{extra}]'"
    sys.exit(code)


injector = partial(_start, "frameworkinjector", "injector")
controller = partial(_start, "frameworkcontroller", "controller")
history = partial(_start, "frameworkhistory", "history")
# Also as `kubectl framework`, and to complete that.
client = partial(_start, "frameworkclient", "client")
completion = partial(_start, "frameworkclient", "client", "complete")
